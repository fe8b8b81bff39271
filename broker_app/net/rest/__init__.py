"""The REST data plane: messages over HTTP, bare ASGI.

Owns requests, replies, receipts of leased deliveries, and the OpenAPI description of all that. It feeds
the engine with commands as one client; it never decides about messages and never knows Django.
"""

from broker_app.net.rest.api import RestApi
from broker_app.net.rest.limits import RestLimits

__all__ = ["RestApi", "RestLimits"]
