"""The cluster that the broker is in."""

from __future__ import annotations

from typing import get_args

from broker_app.base import states
from broker_app.core.policy import SCOPES
from broker_app.features.cluster.record.change_record import KINDS
from broker_app.features.cluster.record.keeper import KeeperResult
from broker_app.features.cluster.report import FoundBy
from broker_app.net.rest.node.mirrors import MAX_REASON
from broker_app.net.rest.openapi.operations import (
    AFTER,
    LINES,
    json_body,
    json_reply,
    operation,
    parameter,
)
from broker_app.net.rest.openapi.schemas import (
    BOOLEAN,
    COUNT,
    HEALTH,
    OPTIONAL_TIME,
    PAGING,
    RATE,
    SECONDS,
    TEXT,
    TIME,
    Json,
    array_of,
    object_of,
    ref,
    state_of,
    whole,
)

_LINK: Json = {
    "broker": {**TEXT, "description": "name of the other broker"},
    "address": {**TEXT, "description": "HOST:PORT of its cluster listener"},
    "state": state_of(states.LINK),
    "found_by": {
        "enum": list(get_args(FoundBy)),
        "description": "static: the settings name it. multicast: it announces itself. registry: the store "
        "of the enhanced cluster has it. broker: it, or another one, has named it",
    },
    "health": HEALTH,
    "taken_by": {
        **TEXT,
        "description": "the member that has taken over from the other broker, which is away: no link is "
        "expected. Empty for a link that is up or should be",
    },
    "reason": {**TEXT, "description": "why it is not up; else empty"},
    "since": {**OPTIONAL_TIME, "description": "when this state began"},
    "version": TEXT,
    "tls": BOOLEAN,
    "quiesced": {**BOOLEAN, "description": "the other broker refuses new clients"},
    "sent": {**COUNT, "description": "messages sent there for its consumers, since this broker started"},
    "received": {**COUNT, "description": "messages received from there for consumers here"},
    "returned": {**COUNT, "description": "received ones that found no consumer here and went back"},
    "sent_rate": RATE,
    "received_rate": RATE,
    "unsettled_there": {**COUNT, "description": "deliveries there that are not settled"},
    "unsettled_here": {**COUNT, "description": "deliveries from there that are not settled here"},
    "round_trip_ms": {"type": ["number", "null"], "minimum": 0},
    "stomp": {**TEXT, "description": "failover address of its STOMP clients; empty until it was up"},
    "web": {**TEXT, "description": "failover address of its web clients; empty until it was up"},
}

_SUSPICION: Json = {
    "since": {**TIME, "description": "when this broker had missed its heart-beats"},
    "looks": {**COUNT, "description": "looks at it since then that found no heart-beat"},
    "by": {**array_of(TEXT), "description": "the members that suspect it, this broker among them"},
}
_MEMBER: Json = {
    "broker": TEXT,
    "address": {**TEXT, "description": "HOST:PORT of its cluster listener; empty if it is taken over"},
    "state": state_of(states.MEMBER),
    "messages": {**COUNT, "description": "stored in its journal"},
    "taken_by": {**TEXT, "description": "the broker that takes over, or serves its journal; else empty"},
    "seen_s": {**SECONDS, "description": "since the last heart-beat"},
    "why": {**TEXT, "description": "explains the state; empty while it serves"},
    "suspicion": {
        "oneOf": [object_of(_SUSPICION), {"type": "null"}],
        "description": "null for a member that is not suspect",
    },
}
_TAKEOVER: Json = {
    "member": {**TEXT, "description": "the broker that has failed"},
    "journal": {**TEXT, "description": "its journal"},
    "taker": {**TEXT, "description": "the broker that has suspected it, and has taken over"},
    "epoch": COUNT,
    "why": TEXT,
    "began": TIME,
    "suspected": {**OPTIONAL_TIME, "description": "when the taker had missed heart-beats"},
    "took_s": {**SECONDS, "description": "from the lock to the broker that serves the messages"},
    "messages": {**COUNT, "description": "messages that were taken over"},
    "result": state_of(states.TAKEOVER),
    "lost": {**TEXT, "description": "what was lost"},
    "lost_messages": {
        "type": ["integer", "null"],
        "minimum": 0,
        "description": "messages that were only in its memory; null: not known",
    },
    "error": {**TEXT, "description": "why it has failed"},
}
_TOTALS: Json = {
    "complete": {**COUNT, "description": "takeovers by this broker since it started"},
    "failed": COUNT,
    "messages": {**COUNT, "description": "messages that were taken over"},
    "lost_messages": {**COUNT, "description": "messages that are known to be lost: only in memory"},
    "last_took_s": {"type": ["number", "null"], "minimum": 0},
    "refused_s": {**SECONDS, "description": "for which new clients were refused because of takeovers"},
}
_DISCOVERY: Json = {
    "way": {"enum": list(get_args(FoundBy))},
    "place": {**TEXT, "description": "the multicast group, or the cluster_id of the registry"},
    "error": {**TEXT, "description": "why no broker is found in this way now; else empty"},
}
_ENHANCED: Json = {
    "cluster_id": TEXT,
    "heartbeat_s": SECONDS,
    "heartbeat_threshold": COUNT,
    "monitor_s": SECONDS,
    "monitor_threshold": COUNT,
    "lease_s": SECONDS,
    "worst_case_s": {**SECONDS, "description": "a member that ends is taken over after so long at most"},
    "taking_over": {**TEXT, "description": "the member that this broker takes over now; else empty"},
    "totals": object_of(_TOTALS),
    "members": array_of(object_of(_MEMBER)),
    "takeovers": array_of(ref("ClusterTakeover")),
}

_DESTINATION: Json = {
    "broker": {**TEXT, "description": "the broker that these figures are of"},
    "address": {**TEXT, "description": "/queue/NAME or /topic/NAME"},
    "depth": {**COUNT, "description": "messages that wait at this broker"},
    "unsettled": {**COUNT, "description": "messages of this broker that consumers anywhere have"},
    "consumers": {**COUNT, "description": "consumers that are connected to this broker"},
    "max_messages": {**COUNT, "description": "0: no limit, as of the other two"},
    "max_bytes": COUNT,
    "max_producers": COUNT,
    "scope": {"enum": list(SCOPES), "description": "of which the limits are: the broker, or all together"},
}

_BACKUP: Json = {
    "required": True,
    "content": {
        "application/x-ndjson": {"schema": {"type": "string", "description": "the file of a backup"}}
    },
}
_ENTRY: Json = {
    "id": TEXT,
    "kind": {"enum": list(KINDS)},
    "name": TEXT,
    "version": {**COUNT, "description": "the higher one wins, of equal ones that of the last broker by name"},
    "broker": {**TEXT, "description": "which has given the version"},
    "origin": {**TEXT, "description": "broker at which it was changed"},
    "deleted": BOOLEAN,
    "value": {"type": ["object", "null"]},
}

#: a setting, its value so far, and that of the central file
_CHANGED: Json = object_of({"property": TEXT, "running": TEXT, "file": TEXT})

SCHEMAS: Json = {
    "ClusterLink": object_of(_LINK),
    "Cluster": object_of(
        {
            "broker": {**TEXT, "description": "name of this broker"},
            "address": {**TEXT, "description": "HOST:PORT of its cluster listener"},
            "keeper": {
                **TEXT,
                "description": "address of the master broker, which keeps the change record; else empty",
            },
            "keeper_is_here": BOOLEAN,
            "keeper_state": {
                **TEXT,
                "description": "why changes of the configuration are refused; empty while they are accepted",
            },
            "record_entries": COUNT,
            "record_digest": {**TEXT, "description": "equal at all brokers that have the same change record"},
            "quiesced": {**BOOLEAN, "description": "this broker refuses new clients"},
            "adopted": array_of(
                object_of(
                    {
                        "member": {**TEXT, "description": "the broker that has failed"},
                        "journal": {**TEXT, "description": "its journal, which this broker has taken over"},
                        "epoch": COUNT,
                        "took_s": {"type": ["number", "null"], "description": "seconds of the takeover"},
                        "messages": {**COUNT, "description": "messages that are left"},
                    }
                )
            ),
            "enhanced": {
                "oneOf": [object_of(_ENHANCED), {"type": "null"}],
                "description": "null for a cluster whose brokers do not take over",
            },
            "discovery": array_of(object_of(_DISCOVERY)),
            "links": array_of(ref("ClusterLink")),
        }
    ),
    "ClusterTakeover": object_of(_TAKEOVER),
    "ClusterRemoval": object_of(
        {
            "member": TEXT,
            "journals": {**array_of(TEXT), "description": "its journals, which are deleted"},
            "messages": {**COUNT, "description": "were in them, as was last noted, and are lost"},
        }
    ),
    "RemovalOrder": object_of(
        {
            "member": {**TEXT, "description": "name of the member"},
            "force": {**BOOLEAN, "description": "although it has messages: they are lost then"},
            "reason": {**TEXT, "maxLength": MAX_REASON, "description": "kept in the audit log"},
        },
        required=("member",),
    ),
    "TakeoverOrder": object_of(
        {
            "member": {**TEXT, "description": "name of the member"},
            "force": {**BOOLEAN, "description": "although it may be alive: it stops to serve then"},
            "reason": {**TEXT, "maxLength": MAX_REASON, "description": "kept in the audit log"},
        },
        required=("member",),
    ),
    "RecordPage": object_of({"items": array_of(object_of(_ENTRY, required=())), **PAGING}),
    "RecordRestored": object_of({"changes": COUNT}),
    "RecordCompacted": object_of({"entries": COUNT, "lines": COUNT}),
    "ClusterReloaded": object_of(
        {
            "brokers": array_of(
                object_of(
                    {
                        "broker": TEXT,
                        "applied": array_of(_CHANGED),
                        "refused": array_of(_CHANGED),
                        "error": {**TEXT, "description": "why it has changed nothing; else empty"},
                    }
                )
            ),
            "not_linked": {**array_of(TEXT), "description": "brokers that did not get the order"},
        }
    ),
    "KeeperOrder": object_of(
        {"broker": {**TEXT, "description": "name of the new keeper; it has to be connected"}}
    ),
    "KeeperChanged": object_of({"result": {"enum": [KeeperResult.OK.value]}, "keeper": TEXT}),
    "ClusterLinkPage": object_of({"items": array_of(object_of(_LINK, required=())), **PAGING}),
    "ClusterDestinationPage": object_of(
        {
            "items": array_of(object_of(_DESTINATION)),
            **PAGING,
            "not_shown": {
                **array_of(TEXT),
                "description": "the other brokers whose destinations are missing: they could not be asked, "
                "or did not answer in time",
            },
        }
    ),
    "ClusterConsumerPage": object_of(
        {
            "items": array_of(
                object_of(
                    {
                        "id": TEXT,
                        "address": {
                            **TEXT,
                            "description": "/queue/NAME, /topic/FILTER, or the queue of a named subscription",
                        },
                        "broker": {**TEXT, "description": "where they are connected"},
                        "selector": TEXT,
                        "consumers": COUNT,
                        "credit": {**COUNT, "description": "messages that they take together"},
                    },
                    required=(),
                )
            ),
            **PAGING,
        }
    ),
}

_PAGE = [
    parameter("limit", whole(1, 500, 100), "rows of a page"),
    AFTER,
    parameter("fields", TEXT, "members, with commas"),
]
PATHS: Json = {
    "/cluster": {
        "get": operation(
            "get_cluster", "This broker's cluster: the keeper, and the link to each other broker",
            {"200": json_reply("the cluster", ref("Cluster"))}, 404,
        ),
    },
    "/cluster/links": {
        "get": operation(
            "list_cluster_links", "The other brokers of the cluster, as this one sees them",
            {"200": json_reply("a page of links", ref("ClusterLinkPage"))}, 404,
            parameters=[
                *_PAGE,
                parameter("sort", TEXT, "such as -sent_rate"),
                parameter("q", TEXT, "words of the broker's name, or a pattern"),
                parameter("state", state_of(states.LINK), "only links in this state"),
            ],
        ),
    },
    "/cluster/takeover": {
        "post": operation(
            "take_over_member",
            "Have this broker take over from a member of its enhanced cluster (imqcmd takeover bkr)",
            {"200": json_reply("it has taken over", ref("ClusterTakeover"))},
            404, 408, 409, 413, 415, 503, body=json_body("TakeoverOrder"),
        ),
    },
    "/cluster/remove": {
        "post": operation(
            "remove_member",
            "Remove a member that is gone for good, with its journals (imqdbmgr remove bkr)",
            {"200": json_reply("it is removed", ref("ClusterRemoval"))},
            404, 408, 409, 413, 415, 503, body=json_body("RemovalOrder"),
        ),
    },
    "/cluster/reload": {
        "post": operation(
            "reload_cluster",
            "Read the central file again, here and at all brokers that are linked (imqcmd reload cls): what "
            "can be changed while a broker runs is, other settings are `refused` until it starts again",
            {"200": json_reply("what each broker did", ref("ClusterReloaded"))},
            404, 409,
        ),
    },
    "/cluster/keeper": {
        "put": operation(
            "change_keeper",
            "Make another broker the keeper (imqcmd changemaster). A refusal has its result as `result`",
            {"200": json_reply("it is the keeper", ref("KeeperChanged"))},
            404, 408, 409, 413, 415, body=json_body("KeeperOrder"),
        ),
    },
    "/cluster/record": {
        "get": operation(
            "list_record", "The change record: destinations and durable subscriptions of the cluster",
            {"200": json_reply("a page of entries", ref("RecordPage"))}, 404,
            parameters=[
                *_PAGE,
                parameter("sort", TEXT, "such as -version"),
                parameter("q", TEXT, "words of name and brokers, or a pattern"),
                parameter("kind", {"enum": list(KINDS)}, "only of this kind"),
            ],
        ),
    },
    "/cluster/record/backup": {
        "get": operation(
            "backup_record", "The change record as a file, a line for each entry", {"200": LINES}, 404
        ),
    },
    "/cluster/record/restore": {
        "post": operation(
            "restore_record",
            "Enter what a backup has and the record has not; other entries stay as they are",
            {"200": json_reply("how many entries were changed", ref("RecordRestored"))},
            404, 408, 413, 415, 503, body=_BACKUP,
        ),
    },
    "/cluster/record/compact": {
        "post": operation(
            "compact_record", "Rewrite the file of the change record with the newest entries only",
            {"200": json_reply("what it has now", ref("RecordCompacted"))}, 404, 503,
        ),
    },
    "/cluster/destinations": {
        "get": operation(
            "list_cluster_destinations",
            "Queues and topics with what each broker has of them: messages, consumers, limits. By address; "
            "all rows of a destination are on one page",
            {"200": json_reply("a page of destinations", ref("ClusterDestinationPage"))}, 404,
            parameters=[
                parameter("limit", whole(1, 500, 100), "destinations of a page"),
                AFTER,
                parameter("q", TEXT, "words of the address, or a pattern"),
                parameter("destination", TEXT, "only this one: the name of a queue, or an address"),
            ],
        ),
    },
    "/cluster/consumers": {
        "get": operation(
            "list_cluster_consumers", "Which brokers of the cluster have consumers of what",
            {"200": json_reply("a page of consumers", ref("ClusterConsumerPage"))}, 404,
            parameters=[
                *_PAGE,
                parameter("sort", TEXT, "such as broker,-consumers"),
                parameter("q", TEXT, "words of address, broker and selector, or a pattern"),
                parameter("destination", TEXT, "only those that receive what is sent to it"),
            ],
        ),
    },
}  # fmt: skip
