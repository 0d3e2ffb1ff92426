"""Tests of the daemon: its interface, its jobs, its server."""
