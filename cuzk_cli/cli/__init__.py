"""The command line: Typer commands, exit codes, output files, progress."""
