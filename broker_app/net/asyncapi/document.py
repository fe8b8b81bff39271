"""The whole document, joined from its parts."""

from __future__ import annotations

from typing import Final

from broker_app.net.asyncapi import event_log, event_streams, json_websocket, stomp, system_topics, webhooks
from broker_app.net.asyncapi.part import DescriptionPart
from broker_app.net.asyncapi.schemas import SCHEMAS
from broker_app.net.rest.openapi.operations import SCHEMAS as PROBLEMS
from broker_app.net.rest.openapi.schemas import Json

#: that of tools which know no later one is 3.0.0
_ASYNCAPI: Final = "3.1.0"
_VERSION: Final = "1"
_WEBSOCKET: Final = "/ws"
#: made of types with the module, and not when a broker takes over: it takes 20 ms
_PARTS: Final[tuple[DescriptionPart, ...]] = (
    stomp.part("stomp", "websocket", _WEBSOCKET),
    json_websocket.part("websocket", _WEBSOCKET),
    event_streams.part("http"),
    webhooks.part("receiver"),
    event_log.part("stomp", "websocket"),
    system_topics.part("stomp", "websocket"),
)


def document(base_path: str = "") -> Json:
    """The description of a broker that is reached below `base_path`."""
    schemas = {**SCHEMAS, **PROBLEMS}
    for part in _PARTS:
        schemas |= part.schemas
    return {
        "asyncapi": _ASYNCAPI,
        "info": {
            "title": "MOM",
            "version": _VERSION,
            "description": "Messages and notifications by STOMP, WebSocket, server-sent events, webhooks. "
            "Operations are those of the broker: it receives what clients send. /api/v1/openapi.json "
            "describes the requests of HTTP.",
        },
        "servers": _servers(base_path),
        "channels": {name: one for part in _PARTS for name, one in part.channels.items()},
        "operations": {name: one for part in _PARTS for name, one in part.operations.items()},
        "components": {
            "messages": {name: one for part in _PARTS for name, one in part.messages.items()},
            "schemas": schemas,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "bearerFormat": "mom_…"},
                "password": {"type": "http", "scheme": "basic"},
                "login": {"type": "userPassword", "description": "in the first frame or operation"},
                "certificate": {"type": "X509", "description": "over TLS, where the broker asks for one"},
            },
        },
    }


def _servers(base_path: str) -> Json:
    below: Json = {"pathname": base_path} if base_path else {}
    return {
        "stomp": _server("stomp", 61613, "STOMP over TCP; over TLS at a port of its own", "login"),
        "websocket": {
            **_server("ws", 8000, "WebSocket; wss where TLS is on", "token", "password", "login"),
            **below,
        },
        "http": {
            **_server("http", 8000, "event streams; https where TLS is on", "token", "password"),
            **below,
        },
        "receiver": {
            "host": "{host}",
            "protocol": "https",
            "description": "the URL of a callback, which is not part of the broker",
            "variables": {"host": {"default": "receiver.example.org"}},
        },
    }


def _server(protocol: str, port: int, about: str, *security: str) -> Json:
    schemes = (*security, "certificate")
    return {
        "host": "{host}:{port}",
        "protocol": protocol,
        "description": about,
        "variables": {"host": {"default": "localhost"}, "port": {"default": str(port)}},
        "security": [{"$ref": f"#/components/securitySchemes/{name}"} for name in schemes],
    }
