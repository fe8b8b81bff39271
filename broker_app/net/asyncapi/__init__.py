"""The AsyncAPI description of the event side: STOMP, JSON over WebSocket, event streams, and webhooks.

A module for each of them makes a `Part` of the tables of the code; `document` joins them. A test validates
the document, and real frames with its schemas.
"""

from broker_app.net.asyncapi.document import document

__all__ = ["document"]
