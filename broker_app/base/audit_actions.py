"""All actions of the audit log: `CHANGES` of each type of resource of the configuration, and `ACTIONS`.

`OperatorActions.note` and `audit.Action.of` take no others.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from broker_app.base.marked import mark as _


class AuditAction(NamedTuple):
    """Something that is done to a resource of a `kind`, with the facts of its entry, with commas. The name is
    its label in the console, too."""

    kind: str
    name: str
    facts: str = ""

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of its facts."""
        return tuple(filter(None, self.facts.split(",")))


#: what happens to resources of the configuration
CREATED, CHANGED, REMOVED = CHANGES = _("created"), _("changed"), _("removed")

#: the label of one resource of each kind that is no type of resource of the configuration
KINDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "queues": _("queue"),
        "topics": _("topic"),
        "messages": _("message"),
        "journal": _("journal"),
        "subscriptions": _("durable subscription"),
        "offsets": _("replication offset"),
        "cursors": _("cursor"),
        "bulk producers": _("bulk producer"),
        "seeds": _("seed message"),
        "connections": _("connection"),
        "services": _("service"),
        "jobs": _("job"),
        "reflex libraries": _("reflex library"),
        "notifications": _("notification"),
        "mirrors": _("mirrors"),
        "cluster": _("cluster"),
        "audit": _("audit log"),
    }
)

#: all actions
ACTIONS: Final[list[AuditAction]] = []


def _action(*members: str) -> AuditAction:
    ACTIONS.append(action := AuditAction(*members))
    return action


MESSAGES_PURGED = _action("queues", _("purged"), "messages")
#: with its messages
QUEUE_REMOVED = _action("queues", REMOVED)
#: bodies that were shown, and the masks that hide nothing from their reader
QUEUE_READ = _action("queues", _("read"), "messages,unmasked")
TOPIC_READ = _action("topics", _("read"), "messages,unmasked")
JOURNAL_READ = _action("journal", _("read"), "messages,unmasked")
MESSAGE_DELETED = _action("messages", _("deleted"), "destination")
SUBSCRIPTION_DELETED = _action("subscriptions", _("deleted"), "destination")
OFFSET_DELETED = _action("offsets", _("deleted"))
OFFSET_HANDED_OVER = _action("offsets", _("handed over"), "owner")
CURSOR_DELETED = _action("cursors", _("deleted"), "position")
BULK_PRODUCER_DELETED = _action("bulk producers", _("deleted"))
SEED_DELETED = _action("seeds", _("deleted"))

CONNECTION_CLOSED = _action("connections", _("closed"), "user,reason")
CONNECTION_DRAINED = _action("connections", _("drained"), "user,reason,within_s")
SERVICE_ACTIVATED = _action("services", _("activated"), "id,user")
SERVICE_DEACTIVATED = _action("services", _("deactivated"), "id,user")
SERVICE_DEREGISTERED = _action("services", _("deregistered"), "id,user")

JOB_STARTED = _action("jobs", _("started"), "op,source,target,filter,messages")
JOB_CANCELLED = _action("jobs", _("cancelled"), "op,processed")
JOB_UNDONE = _action("jobs", _("undone"), "by")
JOB_READ = _action("jobs", _("read"), "source,messages")

BRIDGE_RETRIED = _action("bridges", _("retried"), "queue")
BRIDGE_TESTED = _action("bridges", _("tested"), "address,queue,ok")
CALLBACK_RETRIED = _action("callbacks", _("retried"))
CALLBACK_TESTED = _action("callbacks", _("tested"), "ok")
REFLEX_LIBRARY_RESTARTED = _action("reflex libraries", _("restarted"))

ALERT_ACKNOWLEDGED = _action("alerts", _("acknowledged"), "reason")
ALERT_SILENCED = _action("alerts", _("silenced"), "reason,for_s")
ALERT_UNSILENCED = _action("alerts", _("unsilenced"), "reason")
NOTIFICATION_TESTED = _action("notifications", _("tested"), "ok")

MIRRORS_SWITCHED_OVER = _action("mirrors", _("switched over"), "reason,to")
MIRRORS_TAKEN_OVER = _action("mirrors", _("took over"), "reason")
MIRRORS_PAUSED = _action("mirrors", _("paused"), "reason,for_s")
MIRRORS_RESUMED = _action("mirrors", _("resumed"))

MEMBER_TAKEN_OVER = _action("cluster", _("takeover ordered"), "reason,force")
MEMBER_REMOVED = _action("cluster", _("removal ordered"), "reason,force")
CENTRAL_FILE_RELOADED = _action("cluster", _("reloaded"), "brokers")
CLIENTS_REBALANCED = _action("cluster", _("rebalanced"), "planned")
CHANGE_RECORD_RESTORED = _action("cluster", _("restored"), "changes")
CHANGE_RECORD_COMPACTED = _action("cluster", _("compacted"))
KEEPER_CHANGED = _action("cluster", CHANGED, "broker")

BROKER_QUIESCED = _action("brokers", _("quiesced"), "reason")
BROKER_UNQUIESCED = _action("brokers", _("unquiesced"), "reason")
BROKER_PAUSED = _action("brokers", _("paused"), "reason")
BROKER_RESUMED = _action("brokers", _("resumed"), "reason")
BROKER_RESTARTED = _action("brokers", _("restarted"), "reason")
BROKER_SHUT_DOWN = _action("brokers", _("shut down"), "reason,no_failover,delay_s")

LOGGED_IN = _action("users", _("logged in"))
LOGIN_FAILED = _action("users", _("login failed"))
#: once a minute for all further ones
LOGINS_FAIL = _action("users", _("logins fail"), "a_minute")
ACTIONS_LOST = _action("audit", _("not recorded"), "actions")


def read_of(kind: str) -> AuditAction:
    """Reading of a destination of a kind, `queue` or `topic`."""
    return TOPIC_READ if kind == "topic" else QUEUE_READ
