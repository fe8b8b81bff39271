"""The WebSocket subprotocol `mom.v1.json`: callbacks for clients that speak neither STOMP nor HTTP.

A client sends operations and receives events, each a JSON object with the member `op`. `operations` lists
them; `session` is one client; `server` has what all sessions share.
"""

from broker_app.net.json.server import JsonServer

__all__ = ["JsonServer"]
