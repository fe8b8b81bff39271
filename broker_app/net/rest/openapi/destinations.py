"""Queues, topics and durable subscriptions."""

from __future__ import annotations

from typing import get_args

from broker_app.base import states
from broker_app.core.policy import PAUSES, SCOPED_LIMITS, SCOPES
from broker_app.net.policy.destination_settings import SETTINGS
from broker_app.net.policy.policy import ADMINISTER
from broker_app.net.rest.destinations.propagation import Propagation
from broker_app.net.rest.destinations.status import MAX_SUBSCRIPTIONS
from broker_app.net.rest.openapi.operations import (
    AFTER,
    QUEUE,
    TOPIC,
    empty_reply,
    in_path,
    json_reply,
    operation,
    parameter,
)
from broker_app.net.rest.openapi.schemas import (
    BOOLEAN,
    COUNT,
    FULLNESS,
    NAME,
    PAGING,
    RATE,
    SECONDS,
    STATE,
    TEXT,
    Json,
    array_of,
    object_of,
    ref,
    state_of,
    whole,
)
from broker_app.net.rest.openapi.settings import setting_schema
from broker_app.rules.event import METHODS
from broker_app.telemetry.trend import STEP_S, STEPS

_PAUSED: Json = {"enum": list(PAUSES), "description": "who is held back"}
_DECLARED: Json = {
    **BOOLEAN,
    "description": "true: it has settings of its own, and exists until it is deleted",
}
_LIVE: Json = {
    "in_rate": RATE,
    "out_rate": RATE,
    "state": STATE,
    "trend": {
        **array_of(COUNT, STEPS),
        "description": f"what waited in a queue, or came to a topic, in steps of {STEP_S} s up to now; "
        "in lists only if `fields` names it",
    },
}
_QUEUE_FACTS: Json = {
    "name": NAME,
    "depth": {**COUNT, "description": "messages that wait"},
    "delayed": {**COUNT, "description": "messages that are not due yet"},
    "unsettled": {**COUNT, "description": "messages handed out and not settled"},
    "consumers": COUNT,
    "oldest_s": {"type": "number", "minimum": 0, "description": "age of the message that waits longest"},
    "published": {**COUNT, "description": "total since the node started, as those below"},
    "delivered": COUNT,
    "fetched": {**COUNT, "description": "of those, the ones that their consumer chose by seq"},
    "polls": {**COUNT, "description": "requests to receive, without those that name seqs"},
    "acknowledged": COUNT,
    "expired": COUNT,
    "dead": {**COUNT, "description": "messages that went to the dead letters"},
    "removed": {**COUNT, "description": "messages that an operator purged, moved or deleted"},
    "discarded": {
        **COUNT,
        "description": "messages that were not persistent, came while there was no room, and were not kept",
    },
    "paused": _PAUSED,
    "declared": _DECLARED,
    "propagation": {
        "enum": [*get_args(Propagation), None],
        "description": "how other brokers of the cluster know it: by its settings, by its consumers, or not "
        "(local); null in no cluster",
    },
    **_LIVE,
    **FULLNESS,
}
_TOPIC_FACTS: Json = {
    "name": NAME,
    "published": {**COUNT, "description": "total since the node started"},
    "consumers": COUNT,
    "named": {**COUNT, "description": "durable and shared subscriptions, consumed or not"},
    "paused": _PAUSED,
    "declared": _DECLARED,
    "depth": {**COUNT, "description": "messages that wait for its subscriptions"},
    "unsettled": {**COUNT, "description": "messages handed out and not settled"},
    **_LIVE,
}
_OF_ONE: Json = {
    "dedup": object_of(
        {
            "ids": {**COUNT, "description": "dedup-ids that are remembered"},
            "window_s": {
                **SECONDS,
                "description": "for how long; too many ids make it shorter than its setting",
            },
        }
    ),
    "subscriptions": array_of(ref("Consumer"), MAX_SUBSCRIPTIONS),
    "permissions": {
        **array_of({"enum": [*METHODS, ADMINISTER]}),
        "description": "the rights of the client to it",
    },
    "settings": object_of(
        {
            name: object_of(
                {
                    "value": setting_schema(setting),
                    "source": {**TEXT, "description": "own, a pattern, node (its settings) or default"},
                }
            )
            for name, setting in SETTINGS.items()
        }
    ),
    "limits": object_of(
        {
            name: object_of(
                {
                    "limit": {**COUNT, "description": "0 is no limit"},
                    "scope": {"enum": list(SCOPES), "description": "each broker, or all together"},
                    "brokers": {**COUNT, "description": "brokers of the cluster; 1 without one"},
                    "effective": {**COUNT, "description": "limit of all brokers together"},
                }
            )
            for name in SCOPED_LIMITS
        }
    ),
}
_USED: Json = {"type": ["integer", "null"], "minimum": 0}
_USAGE: Json = {
    **object_of({"messages": COUNT, "bytes": _USED, "producers": _USED, "consumers": COUNT}),
    "description": "how much of each limit is used; null where there is no such limit",
}
_BRANCH: Json = {
    "depth": {**COUNT, "description": "messages that wait there, or below it together"},
    "state": {**STATE, "description": "its own, or the worst below it"},
    "needs_attention": {**BOOLEAN, "description": "whether it needs attention"},
}
_SUBSCRIPTION = in_path("name", "name of the subscription", {"type": "string", "minLength": 1})
_LISTING = [
    parameter("limit", whole(1, 500, 100), "most rows of a page"),
    AFTER,
    parameter("sort", TEXT, "members to sort by, separated by commas; `-` before one: descending"),
    parameter("fields", TEXT, "members of the rows, separated by commas"),
    parameter("q", TEXT, "words that the name has, or a pattern with `*`; case does not matter"),
    parameter("state", TEXT, f"one of these, separated by commas: {', '.join(states.DESTINATION)}"),
    parameter("consumed", BOOLEAN, "whether it has consumers"),
    parameter("declared", BOOLEAN, "whether it has settings of its own"),
]
_VERSION_HEADER: Json = {
    "ETag": {"schema": TEXT, "required": True, "description": "version of its settings, for If-Match"}
}

SCHEMAS: Json = {
    "Subscription": object_of(
        {
            "name": NAME,
            "topic": {"type": "string", "description": "the filter, without /topic/"},
            "durable": BOOLEAN,
            "shared": BOOLEAN,
            "selector": {"type": ["string", "null"]},
            "owner": TEXT,
            "state": state_of(states.SUBSCRIPTION),
            **dict.fromkeys(
                "consumers backlog unsettled lag published delivered acknowledged expired dead".split(),
                COUNT,
            ),
            "lag_s": {"type": "number", "description": "age of the oldest message not acknowledged"},
        }
    ),
    "SubscriptionPage": object_of({"items": array_of(ref("Subscription")), **PAGING}),
    # With `fields`, any member of a row may be missing.
    "QueuePage": object_of({"items": array_of(object_of(_QUEUE_FACTS, required=())), **PAGING}),
    "Queue": object_of({**_QUEUE_FACTS, **_OF_ONE, "usage": _USAGE}),
    "TopicPage": object_of({"items": array_of(object_of(_TOPIC_FACTS, required=())), **PAGING}),
    "Topic": object_of({**_TOPIC_FACTS, **_OF_ONE}),
    "DestinationTree": object_of(
        {
            "prefix": TEXT,
            "count": {**COUNT, "description": "destinations whose names begin with the prefix"},
            "items": {
                **array_of(
                    {
                        "oneOf": [
                            object_of({"name": NAME, **_BRANCH}),
                            object_of(
                                {
                                    "prefix": NAME,
                                    "count": {**COUNT, "description": "destinations below it"},
                                    **_BRANCH,
                                }
                            ),
                        ]
                    }
                ),
                "description": "destinations, and prefixes that more than one of them has",
            },
            "next": PAGING["next"],
        }
    ),
}

PATHS: Json = {
    "/topics/{name}/subscriptions": {
        "get": operation(
            "list_subscriptions_of_topic", "The durable and shared subscriptions of a topic",
            {"200": json_reply("subscriptions", ref("SubscriptionPage"))}, 503,
            parameters=[TOPIC, parameter("limit", whole(1, 500, 100), "most of a page"), AFTER],
        ),
    },
    "/subscriptions": {
        "get": operation(
            "list_subscriptions", "All durable and shared subscriptions",
            {"200": json_reply("subscriptions", ref("SubscriptionPage"))}, 503,
            parameters=[
                parameter("topic", TEXT, "only subscriptions with this topic filter"),
                parameter("limit", whole(1, 500, 100), "most of a page"),
                AFTER,
            ],
        ),
    },
    "/subscriptions/{name}": {
        "get": operation(
            "get_subscription", "One durable subscription",
            {"200": json_reply("the subscription", ref("Subscription"))}, 404, 503,
            parameters=[_SUBSCRIPTION],
        ),
        "delete": operation(
            "delete_subscription", "Delete a durable subscription and all that it keeps",
            {"204": empty_reply("deleted")}, 404, 409, 503,
            parameters=[_SUBSCRIPTION],
        ),
    },
    "/queues": {
        "get": operation(
            "list_queues", "All queues", {"200": json_reply("queues", ref("QueuePage"))},
            parameters=[*_LISTING, parameter("empty", BOOLEAN, "whether nothing waits or is unsettled")],
        ),
    },
    "/queues/{name}": {
        "get": operation(
            "get_queue", "What is known of a queue, and what holds for it",
            {"200": json_reply("the queue", ref("Queue"), _VERSION_HEADER)}, 404, 503, parameters=[QUEUE],
        ),
    },
    "/destinations/tree": {
        "get": operation(
            "get_tree", "Queues or topics as a tree, a level at a time",
            {"200": json_reply("the children of a branch", ref("DestinationTree"))},
            parameters=[
                parameter("kind", {"enum": ["queue", "topic"], "default": "queue"}, "what is asked for"),
                parameter("prefix", TEXT, "the branch, such as `orders.`; without, the whole"),
                parameter("limit", whole(1, 500, 100), "maximum number of children on a page"),
                AFTER,
            ],
        ),
    },
    "/topics": {
        "get": operation(
            "list_topics", "All topics that were published to since the node started, or declared",
            {"200": json_reply("topics", ref("TopicPage"))}, parameters=_LISTING,
        ),
    },
    "/topics/{name}": {
        "get": operation(
            "get_topic", "The state and the settings of a topic",
            {"200": json_reply("the topic", ref("Topic"), _VERSION_HEADER)}, 404, 503, parameters=[TOPIC],
        ),
    },
}  # fmt: skip
