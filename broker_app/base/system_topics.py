"""All topics on which the broker itself publishes, `$mom.…`: what their messages are, and for whom."""

from __future__ import annotations

from typing import Final, NamedTuple

#: the first level of the names
SYSTEM: Final = "$mom"


class Readers(NamedTuple):
    """For whom messages are: the name of the decision in `SystemRights`, and what the documentation says."""

    name: str
    about: str


ALL = Readers("all", "all")
OF_ROWS = Readers("destinations", "all, with the rows of the destinations that they may browse")
OF_DESTINATION = Readers("destination", "those who may browse that destination")
OF_CONNECTION = Readers("connection", "its user, and others as with `GET /connections`")
OF_CALLBACK = Readers(
    "callback", "its owner, and administrators, who see its URL without user info and query"
)
OF_JOB = Readers("job", "its user, and those who may browse the destination of its messages")
ADMINISTRATORS = Readers("", "administrators")


class SystemTopic(NamedTuple):
    """A topic; with a `rest` there is one about each thing. `snapshot` is what a subscriber with
    `snapshot:true` gets at once. Its messages are CloudEvents, unless it is plain JSON; `events` are the ends
    of their types if there are several."""

    name: str
    readers: Readers
    about: str
    snapshot: str = ""
    rest: str = ""
    events: tuple[str, ...] = ()
    is_plain: bool = False

    @property
    def address(self) -> str:
        """Its name with the rest, for people."""
        return f"{self.name}.<{self.rest}>" if self.rest else self.name

    @property
    def types(self) -> tuple[str, ...]:
        """The types of its CloudEvents."""
        if self.is_plain:
            return ()
        return tuple(type_of(self.name, event) for event in self.events or ("",))

    @property
    def pattern(self) -> str:
        """The filter of all topics that have the same readers."""
        if self.rest:
            return f"{self.name}.>"
        parent = self.name.rpartition(".")[0]
        return self.name if parent in ("", SYSTEM) else f"{parent}.*"


def type_of(name: str, event: str = "") -> str:
    """The type of the CloudEvents of a topic: `mom.dest.full`, and with an event `mom.consumer.left`."""
    return f"{name.removeprefix('$')}.{event}" if event else name.removeprefix("$")


#: all topics
TOPICS: Final[list[SystemTopic]] = []


def _topic(
    name: str,
    readers: Readers,
    about: str,
    snapshot: str = "",
    rest: str = "",
    events: tuple[str, ...] = (),
    *,
    is_plain: bool = False,
) -> str:
    """Declare a topic, and return its name."""
    TOPICS.append(topic := SystemTopic(f"{SYSTEM}.{name}", readers, about, snapshot, rest, events, is_plain))
    return topic.name


_AT_MOST: Final = "figures every 5 s at most"
_GONE: Final = '`"state": "gone"` when it was removed'

NODE = _topic(
    "node",
    ALL,
    "the node: `time` and `node` as in `$mom.stats`, with the number of running `jobs` and firing `alerts`; "
    "small, and the same for all subscribers",
    "the latest",
    is_plain=True,
)
DESTINATIONS = _topic(
    "destinations",
    OF_ROWS,
    "the destinations whose figures changed since the last message, as [rows](#rows-of-changed-destinations)",
    is_plain=True,
)
STATS = _topic("stats", OF_ROWS, "the reply of `GET /api/v1/stats`", "the latest", is_plain=True)
STATS_OF = _topic(
    "stats",
    OF_DESTINATION,
    "one destination, as `now` of `GET /queues/{name}/stats`, in each second in which it was active and the "
    "second after",
    "the latest of each",
    rest="name",
    is_plain=True,
)
CREATED = _topic(
    "dest.created",
    OF_DESTINATION,
    "a queue was created",
    "all queues",
)
DELETED = _topic(
    "dest.deleted",
    OF_DESTINATION,
    "a queue was deleted, with `reason`: `deleted`, or `unused` when nothing had used it for "
    "`MOM_QUEUE_REAP`",
)
FULL = _topic(
    "dest.full",
    OF_DESTINATION,
    'a queue reached its limit (`"full": true`), or has space again',
    "those that are full",
)
OPENED = _topic(
    "conn.opened",
    OF_CONNECTION,
    "a client logged in",
    "all connections",
)
CLOSED = _topic(
    "conn.closed",
    OF_CONNECTION,
    "a client disconnected, with `reason`",
)
SLOW = _topic(
    "conn.slow",
    OF_CONNECTION,
    'a consumer takes nothing although messages wait for it (`"slow": true`), was disconnected for that '
    '(`"ended": true`), or continues',
    "those that are slow",
)
CONSUMER = _topic(
    "consumer",
    OF_DESTINATION,
    "a consumer subscribed to a destination, or left it",
    "its consumers",
    rest="name",
    events=("joined", "left"),
)
FILES = _topic(
    "config.files",
    ADMINISTRATORS,
    "files of the configuration were read again, or refused: `trigger`, `outcome`, `added`, `changed`, "
    "`removed`, `errors`, `warnings`",
)
BRIDGE = _topic(
    "bridge",
    ADMINISTRATORS,
    "the [status of a bridge](#bridges-while-they-run), with the states of its flows only: at once when a "
    f"state, an error or the desired state changes, {_AT_MOST}; {_GONE}",
    "each bridge",
    rest="name",
)
CALLBACK = _topic(
    "callback",
    OF_CALLBACK,
    "the [status of a callback](callbacks.md#status): at once when its state, its breaker or its "
    f"configuration changes, {_AT_MOST}; {_GONE}",
    "each callback",
    rest="name",
)
MIRROR = _topic(
    "mirror",
    ADMINISTRATORS,
    "the brokers that share the journal of broker `<name>`, as in `GET /mirrors`: at once when a state, the "
    f"holder or an order changes, {_AT_MOST}",
    "the status",
    rest="name",
)
CLUSTER = _topic(
    "cluster",
    ADMINISTRATORS,
    "the cluster of broker `<name>`, as in `GET /cluster`: at once when a link, the keeper, a member or a "
    f"takeover changes its state, {_AT_MOST}",
    "the cluster",
    rest="name",
)
JOB = _topic(
    "job",
    OF_JOB,
    "the progress of a [job](#jobs): `state`, `total`, `processed`, `done`, `gone`, `unsettled`, `refused`",
    "the job",
    rest="id",
)
ALERT = _topic(
    "alert",
    ADMINISTRATORS,
    "an [alert](#alerts) as in `GET /alerts`",
    "those that are open",
    events=("fired", "acknowledged", "silenced", "unsilenced", "ended"),
)
FAILOVER = _topic(
    "failover",
    ALL,
    "the addresses of the active broker and its [mirrors](mirrors.md), a JSON list: when it changes",
    is_plain=True,
)
EVENT = _topic(
    "event",
    ADMINISTRATORS,
    "an entry of the event log, as in `GET /events`",
)
DEAD = _topic(
    "dead",
    OF_DESTINATION,
    "messages of a queue became dead letters: `reason`, `messages`, `last_id`, `last_detail`",
    rest="name",
)

#: the subscription of notices that a frame was refused; no topic
REFUSED_SUBSCRIPTION: Final = f"{SYSTEM}.refused"
