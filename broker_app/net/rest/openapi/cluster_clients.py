"""Clients of a broker in a cluster: their lists of brokers, and who goes to another one."""

from __future__ import annotations

from broker_app.base.states import LIST_PLACE, REBALANCING, STAYS
from broker_app.net.rest.openapi.connections import LIST_OF_CLIENT
from broker_app.net.rest.openapi.operations import (
    AFTER,
    json_body,
    json_reply,
    operation,
    parameter,
)
from broker_app.net.rest.openapi.schemas import (
    BOOLEAN,
    COUNT,
    COUNTS,
    OPTIONAL_TIME,
    PAGING,
    TEXT,
    TIME,
    Json,
    array_of,
    object_of,
    ref,
    state_of,
    whole,
)

_PLACES: Json = {
    **array_of(object_of({"broker": TEXT, "state": state_of(LIST_PLACE)})),
    "description": "the other brokers, on the list or not; none if it is not sent",
}

SCHEMAS: Json = {
    "ClusterClientPage": object_of(
        {
            "items": array_of(
                object_of(
                    {
                        "id": {**TEXT, "description": "its connection"},
                        "user": TEXT,
                        "client_id": TEXT,
                        "address": {**TEXT, "description": "its transport, address and port"},
                        **LIST_OF_CLIENT,
                        "listener": {
                            **TEXT,
                            "description": "its listener, if that has settings of its own; else empty",
                        },
                        "to": {**TEXT, "description": "the broker to which it would go; empty if it stays"},
                        "stays": state_of(STAYS),
                    },
                    required=(),
                )
            ),
            **PAGING,
        }
    ),
    "ClusterLists": object_of(
        {
            "version": {**COUNT, "description": "of the present list"},
            "updates": {**BOOLEAN, "description": "update_cluster_clients"},
            "updates_on_remove": {**BOOLEAN, "description": "update_cluster_clients_on_remove"},
            "rebalances": {**BOOLEAN, "description": "rebalance_cluster_clients"},
            "filter": {**TEXT, "description": "update_cluster_filter"},
            "warnings": {**array_of(TEXT), "description": "settings that have another effect than it seems"},
            "clients": COUNT,
            "behind": {**COUNT, "description": "clients that have an older list, or none"},
            "held": {
                **array_of(
                    object_of(
                        {
                            "listener": {
                                **TEXT,
                                "description": "with settings of its own; empty for the general list",
                            },
                            "version": {**COUNT, "description": "0 for none"},
                            "since": {**OPTIONAL_TIME, "description": "when it became the one of clients"},
                            "behind": {**BOOLEAN, "description": "it is not the present list"},
                            "clients": COUNT,
                        }
                    )
                ),
                "description": "how many clients have which list: the 50 that most have",
            },
            "own": {
                **array_of(TEXT),
                "description": "addresses of this broker, the last of each list",
            },
            "brokers": _PLACES,
            "versions": array_of(
                object_of({"version": COUNT, "since": TIME, "cause": TEXT, "uris": array_of(TEXT)})
            ),
            "listeners": {
                **array_of(
                    object_of(
                        {
                            "listener": TEXT,
                            "version": COUNT,
                            "updates": BOOLEAN,
                            "updates_on_remove": BOOLEAN,
                            "rebalances": BOOLEAN,
                            "filter": TEXT,
                            "uris": array_of(TEXT),
                            "brokers": _PLACES,
                        }
                    )
                ),
                "description": "those with settings of their own (transport_connector), and their lists",
            },
        }
    ),
    "Rebalancing": object_of(
        {
            "cause": TEXT,
            "began": TIME,
            "planned": {**COUNTS, "description": "clients that were to go to each broker"},
            "moved": {**COUNTS, "description": "clients that went there"},
            "declined": {**COUNT, "description": "clients that were asked, and stayed"},
            "state": state_of(REBALANCING),
            "ended": OPTIONAL_TIME,
        }
    ),
    "Rebalance": object_of(
        {
            "broker": {**TEXT, "description": "name of this broker"},
            "share": {**COUNT, "description": "the most clients that a broker would have"},
            "moves": {**COUNT, "description": "clients of this broker that would go at once"},
            "brokers": array_of(
                object_of(
                    {
                        "broker": TEXT,
                        "clients": COUNT,
                        "gets": {**COUNT, "description": "clients that it should get from this broker"},
                        "surplus": {**COUNT, "description": "clients above its share"},
                    }
                )
            ),
            "stays": {**COUNTS, "description": "clients that would stay, by reason"},
            "running": {"anyOf": [ref("Rebalancing"), {"type": "null"}]},
            "history": array_of(ref("Rebalancing")),
            "dry_run": {**BOOLEAN, "description": "whether nothing was done; in answers to an order"},
        },
        required=("broker", "share", "moves", "brokers", "stays", "running", "history"),
    ),
    "RebalanceOrder": object_of(
        {"dry_run": {**BOOLEAN, "description": "answer what would be done, and do nothing"}}, required=()
    ),
}

PATHS: Json = {
    "/cluster/clients": {
        "get": operation(
            "list_cluster_clients",
            "This broker's clients: the list of brokers that each has, and where a rebalancing would send it",
            {"200": json_reply("a page of clients", ref("ClusterClientPage"))}, 404,
            parameters=[
                parameter("limit", whole(1, 500, 100), "rows of a page"),
                AFTER,
                parameter("fields", TEXT, "members, with commas"),
                parameter("sort", TEXT, "such as -behind,list_version"),
                parameter("q", TEXT, "words of id, user, client_id and address, or a pattern"),
                parameter("behind", BOOLEAN, "only those that have not, or have, the present list"),
                parameter("list_version", COUNT, "only those that have this list, 0: none"),
                parameter("moves", BOOLEAN, "only those that would go, or that would stay"),
                parameter("stays", state_of(STAYS), "only those that stay for this reason"),
            ],
        ),
    },
    "/cluster/lists": {
        "get": operation(
            "get_cluster_lists", "The list of brokers that clients are sent, and former ones",
            {"200": json_reply("the lists, latest first", ref("ClusterLists"))}, 404,
        ),
    },
    "/cluster/rebalance": {
        "get": operation(
            "get_rebalance", "What a rebalancing of clients would do now, and former ones",
            {"200": json_reply("the preview and the history", ref("Rebalance"))}, 404,
        ),
        "post": operation(
            "rebalance_clients", "Ask clients that this broker has above its share to go to others",
            {
                "200": json_reply("nothing is begun: it was only asked for, or not needed", ref("Rebalance")),
                "202": json_reply("clients are being asked", ref("Rebalance")),
            },
            404, 408, 409, 413, 415, body=json_body("RebalanceOrder", required=False),
        ),
    },
}  # fmt: skip
