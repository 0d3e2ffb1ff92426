"""The status over HTTP: for browsers, dashboards and scrapers. Standard library only, one thread, bounded in everything.

    address ─► listening socket ─► server: connections, limits, timeouts ─► http: request ─► routes ─► response
                                                                                  status.read_status ─► source
"""
from .server import Limits, Server, start
from .token import read_token

__all__ = ["Limits", "Server", "read_token", "start"]
