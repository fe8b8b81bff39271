"""The header names of ActiveMQ, Artemis, RabbitMQ and Apollo, and what each is here.

A name of theirs that would change which messages a client gets, or how often, is done or refused. It is a
hint if nothing is lost, repeated or given to another client when it is ignored. docs/protocol.md shows this
table.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from broker_app.base.refused import Refused
from broker_app.core.destination import Destination

DONE, ALIAS, HINT, REFUSED = ("done", "alias", "hint", "refused")
SEND, SUBSCRIBE, ACK, NACK = FRAMES = "SEND", "SUBSCRIBE", "ACK", "NACK"


#: headers that the broker itself writes into a MESSAGE, and what each is: no client sets them
OF_MESSAGE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "message-id": "",
        "subscription": "",
        "ack": "of 1.2: names it in ACK and NACK",
        "redelivered": "",
        "attempt": "the number of this delivery, of a repeated one",
        "timestamp": "ms since 1970",
        "seq": "of a history: where to continue it",
        "mom-broker": "to a browser: the other broker of the cluster that owns it",
    }
)


class HeaderName(NamedTuple):
    """A header of another broker, in a frame of a client.

    `own` is the name here of an alias. `about` says what comes of it. `example` is a value that has an
    effect; `as_own` is the same in the words of `own`. `harmless` are values that ask for nothing, and are
    not refused.
    """

    frame: str
    name: str
    brokers: str
    use: str
    about: str = ""
    own: str = ""
    example: str = "true"
    as_own: str = "true"
    harmless: tuple[str, ...] = ()


def _alias(
    frame: str,
    name: str,
    brokers: str,
    own: str,
    example: str = "true",
    as_own: str = "true",
    about: str = "",
) -> HeaderName:
    return HeaderName(frame, name, brokers, ALIAS, about, own, example, as_own)


def _hint(frame: str, name: str, brokers: str, about: str, example: str = "true") -> HeaderName:
    return HeaderName(frame, name, brokers, HINT, about, example=example)


def _refused(
    frame: str, name: str, brokers: str, about: str, example: str, harmless: tuple[str, ...] = ()
) -> HeaderName:
    return HeaderName(frame, name, brokers, REFUSED, about, example=example, harmless=harmless)


def _done(frame: str, name: str, brokers: str, example: str = "true", about: str = "") -> HeaderName:
    return HeaderName(frame, name, brokers, DONE, about, example=example)


_REPEATED: Final = "repeated delivery"
_SETTING: Final = "a setting of the destination decides"
_TOO_SLOW: Final = "a consumer that is too slow is ended instead"
_RETAINED: Final = "one retained message of a topic; a history has it, with `from:last`"
_KIND: Final = "must fit the kind of the destination: `ANYCAST` a queue, `MULTICAST` a topic"
_NAMED: Final = "the name is `<id>@<topic>`, and it is shared"
_WITHOUT_HISTORY: Final = "of a topic without a history, which has kept nothing, new messages come"
_DUE_MS: Final = "1900000000000"
#: arguments of RabbitMQ's queues, which SEND and SUBSCRIBE may carry
_QUEUE_ARGUMENTS: Final = (
    *("x-expires", "x-max-length", "x-max-length-bytes", "x-overflow", "x-max-priority", "x-max-age"),
    *("x-dead-letter-exchange", "x-dead-letter-routing-key"),
    *("x-stream-max-segment-size-bytes", "x-stream-filter-size-bytes"),
)
_STREAM: Final = "queues whose consumers all get all messages; a topic with a history is like them"
_QUEUE_TYPES: Final = ("classic", "quorum", "")

TABLE: Final = (
    _done(SEND, "persistent", "ActiveMQ, Artemis, RabbitMQ, Apollo", "false"),
    _done(SEND, "priority", "ActiveMQ, Artemis, RabbitMQ, Apollo", "9"),
    _done(SEND, "expires", "ActiveMQ, Artemis, Apollo", _DUE_MS),
    _alias(SEND, "expiration", "RabbitMQ", "ttl-s", "5000", "5", "in ms"),
    _alias(SEND, "x-message-ttl", "RabbitMQ", "ttl-s", "5000", "5", "in ms"),
    _alias(SEND, "ttl", "Apollo", "ttl-s", "5000", "5", "in ms"),
    _alias(SEND, "AMQ_SCHEDULED_DELAY", "ActiveMQ, Artemis", "delay-s", "5000", "5", "in ms"),
    _alias(SEND, "x-delay", "RabbitMQ", "delay-s", "5000", "5", "in ms"),
    _alias(SEND, "_AMQ_SCHED_DELIVERY", "Artemis", "deliver-at", _DUE_MS, _DUE_MS),
    _alias(SEND, "AMQ_SCHEDULED_TIME", "Artemis", "deliver-at", _DUE_MS, _DUE_MS),
    _refused(SEND, "AMQ_SCHEDULED_PERIOD", "ActiveMQ", _REPEATED, "1000"),
    _refused(SEND, "AMQ_SCHEDULED_REPEAT", "ActiveMQ", _REPEATED, "2"),
    _refused(SEND, "AMQ_SCHEDULED_CRON", "ActiveMQ", _REPEATED, "0 * * * *"),
    _alias(SEND, "_AMQ_DUPL_ID", "Artemis", "dedup-id", "7", "7"),
    _alias(SEND, "message-deduplication-id", "RabbitMQ", "dedup-id", "7", "7"),
    _alias(SEND, "JMSXGroupID", "ActiveMQ, Artemis", "group", "g", "g"),
    _alias(SEND, "_AMQ_GROUP_ID", "Artemis", "group", "g", "g"),
    _alias(SEND, "message_group", "Apollo", "group", "g", "g"),
    _hint(SEND, "JMSXGroupSeq", "ActiveMQ, Artemis", "carried; does not end a group", "-1"),
    _hint(SEND, "_AMQ_GROUP_SEQUENCE", "Artemis", "carried; does not end a group", "-1"),
    _hint(SEND, "_AMQ_LVQ_NAME", "Artemis", "carried; no queue keeps only the last value", "k"),
    _done(SEND, "destination-type", "Artemis", "MULTICAST", _KIND),
    _refused(SEND, "retain", "Apollo", _RETAINED, "set", ("false", "")),
    _hint(SEND, "x-stream-filter-value", "RabbitMQ", "carried, for selectors", "blue"),
    _hint(SEND, "transformation", "ActiveMQ, Apollo", "carried; bodies are never converted", "jms-xml"),
    _hint(SEND, "amq-msg-type", "ActiveMQ", "carried; a body is bytes", "text"),
    _hint(SEND, "user-id", "RabbitMQ", "carried, and not checked", "anna"),
    *(_hint(SEND, name, "RabbitMQ", f"carried; {_SETTING}", "1") for name in _QUEUE_ARGUMENTS),
    _refused(SEND, "x-queue-type", "RabbitMQ", _STREAM, "stream", _QUEUE_TYPES),
    _done(SUBSCRIBE, "selector", "ActiveMQ, Artemis, Apollo", "a = 1"),
    _done(SUBSCRIBE, "browser", "ActiveMQ, Apollo", "true", "shows what waits in a queue, and takes nothing"),
    _refused(SUBSCRIBE, "browser-end", "Apollo", "browsers that go on", "false", ("true", "1", "")),
    _done(SUBSCRIBE, "no-local", "ActiveMQ, Artemis"),
    _alias(SUBSCRIBE, "activemq.noLocal", "ActiveMQ, Artemis", "no-local"),
    _alias(SUBSCRIBE, "x-priority", "RabbitMQ", "consumer-priority", "7", "7"),
    _alias(SUBSCRIBE, "activemq.priority", "ActiveMQ", "consumer-priority", "7", "7"),
    _alias(SUBSCRIBE, "prefetch-count", "RabbitMQ", "credit", "7", "7"),
    _alias(SUBSCRIBE, "activemq.prefetchSize", "ActiveMQ, Artemis", "credit", "7", "7"),
    _alias(SUBSCRIBE, "consumer-window-size", "Artemis", "credit", "7168", "7", "in bytes"),
    _done(SUBSCRIBE, "credit", "Apollo", "7,0", "`<messages>,<bytes>`; with `,false` it is `unsupported`"),
    _done(SUBSCRIBE, "exclusive", "RabbitMQ, Apollo"),
    _alias(SUBSCRIBE, "activemq.exclusive", "ActiveMQ", "exclusive"),
    _alias(SUBSCRIBE, "x-single-active-consumer", "RabbitMQ", "exclusive"),
    _alias(SUBSCRIBE, "durable", "RabbitMQ", "durable-name", "true", "1@t\nshare:true", _NAMED),
    _alias(SUBSCRIBE, "persistent", "RabbitMQ, Apollo", "durable-name", "true", "1@t\nshare:true", _NAMED),
    _done(SUBSCRIBE, "auto-delete", "RabbitMQ", "true\ndurable:true", "`true` overrides `durable`"),
    _alias(SUBSCRIBE, "activemq.subscriptionName", "ActiveMQ, Artemis", "durable-name", "one", "one"),
    _alias(SUBSCRIBE, "activemq.subcriptionName", "ActiveMQ", "durable-name", "one", "one"),
    _alias(SUBSCRIBE, "durable-subscription-name", "Artemis", "durable-name", "one", "one"),
    _alias(SUBSCRIBE, "durable-subscriber-name", "Artemis", "durable-name", "one", "one"),
    _alias(SUBSCRIBE, "x-queue-name", "RabbitMQ", "share", "one", "one", "of topics"),
    _done(SUBSCRIBE, "subscription-type", "Artemis", "ANYCAST", _KIND),
    _alias(SUBSCRIBE, "activemq.retroactive", "ActiveMQ", "from", "true", "first", _WITHOUT_HISTORY),
    _alias(SUBSCRIBE, "x-stream-offset", "RabbitMQ", "from", "first", "first", _WITHOUT_HISTORY),
    _refused(SUBSCRIBE, "x-stream-filter", "RabbitMQ", "filters of streams; `selector` is like them", "blue"),
    _hint(SUBSCRIBE, "x-stream-match-unfiltered", "RabbitMQ", "belongs to `x-stream-filter`"),
    _refused(SUBSCRIBE, "from-seq", "Apollo", "starts within a queue; topics have `from`", "7", ("0",)),
    _refused(SUBSCRIBE, "include-seq", "Apollo", "header with the number of a message", "s"),
    _hint(SUBSCRIBE, "activemq.dispatchAsync", "ActiveMQ", "no client waits for another"),
    _hint(SUBSCRIBE, "activemq.maximumPendingMessageLimit", "ActiveMQ", _TOO_SLOW, "10"),
    _hint(SUBSCRIBE, "transformation", "ActiveMQ", "bodies are never converted", "jms-xml"),
    _hint(SUBSCRIBE, "x-cancel-on-ha-failover", "RabbitMQ", "a failover ends the connection"),
    _hint(SUBSCRIBE, "x-message-ttl", "RabbitMQ", _SETTING, "1"),
    *(_hint(SUBSCRIBE, name, "RabbitMQ", _SETTING, "1") for name in _QUEUE_ARGUMENTS),
    _refused(SUBSCRIBE, "x-queue-type", "RabbitMQ", _STREAM, "stream", _QUEUE_TYPES),
    _hint(ACK, "credit", "Apollo", "each ACK gives the credit of its message back", "1"),
    _done(NACK, "requeue", "RabbitMQ", "false"),
)


def rows(frame: str, use: str) -> tuple[HeaderName, ...]:
    """The headers of a frame with this use."""
    return tuple(row for row in TABLE if row.frame == frame and row.use == use)


def aliases(frame: str, own: str) -> tuple[str, ...]:
    """The names that other brokers have for a header of MOM."""
    return tuple(row.name for row in rows(frame, ALIAS) if row.own == own)


_REFUSED: Final = {frame: rows(frame, REFUSED) for frame in (SEND, SUBSCRIBE)}
#: headers of SEND that may be refused
CHECKED_OF_SEND: Final = frozenset(("destination-type", *(row.name for row in _REFUSED[SEND])))
_KINDS: Final = {"ANYCAST": True, "MULTICAST": False}


def check(frame: str, given: Mapping[str, str], destination: Destination) -> None:
    """Refuse a frame that asks for what is not there. Raises Refused."""
    for row in _REFUSED[frame]:
        value = given.get(row.name)
        if value is not None and value.lower() not in row.harmless:
            raise Refused("unsupported", f"header {row.name}: this version of MOM has no {row.about}")
    name = "destination-type" if frame == SEND else "subscription-type"
    kind = given.get(name)
    if kind is not None and _KINDS.get(kind.upper(), destination.is_queue) is not destination.is_queue:
        raise Refused(
            "unsupported",
            f"header {name} is {kind[:40]}, which {destination.address} is not: ANYCAST needs /queue/…, "
            "MULTICAST /topic/…",
        )
