"""The REST data plane: messages over HTTP, bare ASGI.

Owns requests, replies, receipts of leased deliveries, and the OpenAPI description of all that. It feeds
the engine with commands as one client; it never decides about messages and never knows Django.
"""

from broker_app.net.http.limits import RestLimits
from broker_app.net.rest.api import RestApi

__all__ = ["RestApi", "RestLimits"]
