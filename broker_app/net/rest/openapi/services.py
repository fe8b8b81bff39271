"""Services: programs that registered under a name."""

from __future__ import annotations

from broker_app.base.states import ORIGIN
from broker_app.core.destination import MAX_NAME
from broker_app.features.services.profiles import DEFAULT_COPIES, MOST_COPIES
from broker_app.net.rest.connections.services import DEFAULT_LEASE_S, LEAST_LEASE_S, MOST_EVENTS, MOST_LEASE_S
from broker_app.net.rest.openapi.operations import (
    AFTER,
    BEGINS,
    empty_reply,
    in_path,
    json_body,
    json_reply,
    operation,
    parameter,
)
from broker_app.net.rest.openapi.schemas import (
    BOOLEAN,
    COUNT,
    OPTIONAL_TEXT,
    OPTIONAL_TIME,
    TEXT,
    TIME,
    Json,
    array_of,
    number,
    object_of,
    ref,
    request_of,
    state_of,
    whole,
)

_LEASE = number(LEAST_LEASE_S, MOST_LEASE_S, DEFAULT_LEASE_S)
_SHORT: Json = {"type": "string", "maxLength": 255}
_EVENTS = array_of(_SHORT, MOST_EVENTS)
_ID = in_path("id", "of the service", {"type": "string", "minLength": 1})
_FETCHES: Json = {
    "pending": {**COUNT, "description": "messages that wait at the origin, as far as they are listed"},
    "held": {**COUNT, "description": "fetched, and not settled yet"},
    "fetched": {**COUNT, "description": "fetches of originals so far"},
    "gone": {**COUNT, "description": "originals that were gone when they were to be fetched"},
    "polls": {**COUNT, "description": "receive requests here, which the origin was spared"},
}

SCHEMAS: Json = {
    "Origin": object_of(
        {
            "urls": {
                **array_of({"type": "string", "maxLength": 2048}, 16),
                "minItems": 1,
                "description": "WebSocket addresses of the broker and its mirrors: ws://HOST:PORT/ws",
            },
            "login": _SHORT,
            "passcode": {"type": "string", "maxLength": 4096},
            "token": {"type": "string", "maxLength": 4096},
        },
        required=("urls",),
    ),
    "ServiceRequest": request_of(
        {
            "name": {**_SHORT, "minLength": 1, "description": "its messages are those of this queue"},
            "machine": {**_SHORT, "description": "name of its machine; default: its address"},
            "type": _SHORT,
            "events": _EVENTS,
            "lease_s": {**_LEASE, "description": "it is deregistered when it does not renew this"},
            "origin": {
                "anyOf": [ref("Origin"), {"type": "null"}],
                "description": "at a callback broker: the remote broker that notifies it of messages",
            },
        },
        required=("name",),
    ),
    "ServiceChange": request_of(
        {
            "machine": {**_SHORT, "type": ["string", "null"]},
            "type": {**_SHORT, "type": ["string", "null"]},
            "events": {**_EVENTS, "type": ["array", "null"]},
            "active": {"type": ["boolean", "null"]},
            "lease_s": {**_LEASE, "type": ["number", "null"]},
        },
        required=(),
    ),
    "Service": object_of(
        {
            "id": TEXT,
            "name": TEXT,
            "user": TEXT,
            "machine": TEXT,
            "type": TEXT,
            "events": array_of(TEXT),
            "active": {**BOOLEAN, "description": "false: it receives no copies of seed messages"},
            "callbacks": {**BOOLEAN, "description": "a callback broker may serve it"},
            "transport": TEXT,
            "connection": OPTIONAL_TEXT,
            "since": TIME,
            "lease_until": {**OPTIONAL_TIME, "description": "null: it ends with its connection"},
            "pending": {**COUNT, "description": "messages that wait in its queue"},
            "origin": {
                "anyOf": [
                    object_of({"url": TEXT, "state": TEXT, "error": OPTIONAL_TEXT}),
                    {"type": "null"},
                ],
                "description": "the remote broker of a service of a callback broker",
            },
        }
    ),
    "Subscribers": object_of(
        {
            "items": array_of(
                object_of(
                    {
                        "id": TEXT,
                        "name": {**TEXT, "description": "of the queue or topic"},
                        "user": TEXT,
                        "address": {**TEXT, "description": "of the client"},
                        "transport": {"enum": ["websocket", "sse"]},
                        "mode": {"enum": ["deliver", "notify"]},
                        "source": TEXT,
                        "connection": OPTIONAL_TEXT,
                        "since": TIME,
                        "events": {**COUNT, "description": "messages or notifications so far"},
                        "last_at": OPTIONAL_TIME,
                        "pending": {"type": ["integer", "null"], "description": "null for topics"},
                    },
                    required=(),
                )
            ),
            "next": OPTIONAL_TEXT,
            "approx_total": COUNT,
        }
    ),
    "Origins": object_of(
        {
            "callback_broker": {**BOOLEAN, "description": "false: this broker has no origins"},
            "items": array_of(
                object_of(
                    {
                        "url": {**TEXT, "description": "its address, or that of its mirror, tried last"},
                        "state": state_of(ORIGIN),
                        "error": {**OPTIONAL_TEXT, "description": "why there is no connection"},
                        "login": {**TEXT, "description": "token where services log in with one"},
                        "services": {**COUNT, "description": "registered there"},
                        **_FETCHES,
                        "queues": array_of(
                            object_of(
                                {
                                    "name": TEXT,
                                    **_FETCHES,
                                    "more": {**BOOLEAN, "description": "more wait than are listed"},
                                }
                            )
                        ),
                    }
                )
            ),
        }
    ),
    "PendingOriginals": object_of(
        {
            "items": array_of(
                object_of(
                    {
                        "id": TEXT,
                        "seq": COUNT,
                        "state": {**TEXT, "description": "waiting, fetching, fetched or settling"},
                    }
                )
            )
        }
    ),
    "Seeds": object_of(
        {
            "items": array_of(
                object_of(
                    {
                        "id": TEXT,
                        "profile": {**TEXT, "description": "the condition on services"},
                        "sender": TEXT,
                        "copies": COUNT,
                        "max_copies": COUNT,
                        "services": {**array_of(TEXT), "description": "those that have a copy"},
                        "expires_at": {**OPTIONAL_TIME, "description": "null: never"},
                    },
                    required=(),
                )
            ),
            "next": OPTIONAL_TEXT,
            "approx_total": COUNT,
        }
    ),
    "Services": object_of(
        {"items": array_of({"type": "object"}), "next": OPTIONAL_TEXT, "approx_total": COUNT}
    ),
}

_PROFILE = "a condition on name, user, machine, type and events of services, such as type = 'shop'"
PATHS: Json = {
    "/origins": {
        "get": operation(
            "list_origins",
            "The remote brokers of a callback broker, for administrators",
            {"200": json_reply("connections to origins, and their services", ref("Origins"))},
        ),
    },
    "/profiles/messages": {
        "post": operation(
            "publish_to_profile",
            "Publish a message for all services that match, now and later",
            {"201": json_reply("the message is stored", ref("Published"))},
            413,
            415,
            422,
            503,
            parameters=[
                parameter(
                    "profile", {**TEXT, "maxLength": MAX_NAME, "minLength": 1}, _PROFILE, required=True
                ),
                parameter("max_copies", whole(1, MOST_COPIES, DEFAULT_COPIES), "services that get a copy"),
            ],
            body={"required": False, "content": {"*/*": {}}},
            refused_while=BEGINS,
        ),
    },
    "/seeds": {
        "get": operation(
            "list_seeds",
            "Messages to profiles that wait for further services",
            {"200": json_reply("a page of seeds", ref("Seeds"))},
            parameters=[
                parameter("limit", whole(1, 500, 100), "rows of a page"),
                AFTER,
                parameter("sort", TEXT, "such as -copies"),
                parameter("fields", TEXT, "members, with commas"),
                parameter("q", TEXT, "words of the name, or a pattern"),
            ],
        ),
    },
    "/seeds/{id}": {
        "delete": operation(
            "remove_seed",
            "Make no further copies",
            {"204": empty_reply("it is removed")},
            404,
            parameters=[in_path("id", "of the seed", {"type": "string", "minLength": 1})],
        ),
    },
    "/services": {
        "get": operation(
            "list_services",
            "Services that are registered",
            {"200": json_reply("a page of services", ref("Services"))},
            parameters=[
                parameter("limit", whole(1, 500, 100), "rows of a page"),
                AFTER,
                parameter("sort", TEXT, "such as -pending,name"),
                parameter("fields", TEXT, "members, with commas"),
                parameter("q", TEXT, "words of the name, or a pattern"),
                parameter("active", BOOLEAN, "only active ones, or only inactive ones"),
            ],
        ),
        "post": operation(
            "register_service",
            "Register a service, which ends when its lease is not renewed",
            {"201": json_reply("the service", ref("Service"))},
            413,
            415,
            422,
            503,
            body=json_body("ServiceRequest"),
        ),
    },
    "/services/{id}": {
        "get": operation(
            "show_service",
            "One service",
            {"200": json_reply("the service", ref("Service"))},
            404,
            parameters=[_ID],
        ),
        "patch": operation(
            "change_service",
            "Change its properties, its activation, or renew its lease",
            {"200": json_reply("the service", ref("Service"))},
            404,
            413,
            415,
            parameters=[_ID],
            body=json_body("ServiceChange"),
        ),
        "delete": operation(
            "deregister_service",
            "End the registration",
            {"204": empty_reply("it has ended")},
            404,
            parameters=[_ID],
        ),
    },
    "/services/{id}/pending": {
        "get": operation(
            "list_pending_originals",
            "The messages that wait at the origin of a service of a callback broker",
            {"200": json_reply("the messages, in the order of their arrival", ref("PendingOriginals"))},
            404,
            409,
            parameters=[_ID],
        ),
    },
    "/subscribers": {
        "get": operation(
            "list_subscribers",
            "Subscribers that are called over an open WebSocket (JSON) or event stream",
            {"200": json_reply("a page of subscribers", ref("Subscribers"))},
            parameters=[
                parameter("limit", whole(1, 500, 100), "rows of a page"),
                AFTER,
                parameter("sort", TEXT, "such as -pending,user"),
                parameter("fields", TEXT, "members, with commas"),
                parameter("q", TEXT, "words of the name, or a pattern"),
                parameter("notify", BOOLEAN, "only those of mode notify, or only the others"),
            ],
        ),
    },
}
