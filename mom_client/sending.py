"""The options of a send, and the header lines they become."""

from collections.abc import Mapping
from typing import Any, Final, TypedDict

from .stomp import frame as wire
from .stomp.encode import encode_headers
from .storeandforward import PREFIX, forwarded

__all__ = ["Composer", "SendOptions", "checked_broker", "forwarding_address"]


class SendOptions(TypedDict, total=False):
    """The options of a message; None means the default."""

    headers: Mapping[str, str] | None  #: the application's own
    persistent: bool | None  #: whether it survives a crash of the broker; default: as the destination has it
    priority: int | None  #: 0 to 9, higher first; default 4
    ttl_s: float | None  #: seconds after which it is no longer delivered
    delay_s: float | None  #: seconds before which it is not delivered
    content_type: str | None
    correlation_id: str | None
    reply_to: str | None
    group: str | None  #: messages of one group go to one consumer at a time, in order
    dedup_id: str | None  #: a repeat within the broker's window is confirmed and not stored


#: Options that differ from message to message; the lines of the others are made once.
_VARYING: Final = frozenset(("headers", "correlation_id", "dedup_id", "group"))
_HEADS: Final = 256
_QUEUE: Final = "/queue/"
#: what a client that forwards all it sends forwards; replies go to temporary queues, which are here
_FORWARDED: Final = (_QUEUE, "/topic/")


class Composer:
    """Makes the beginnings of SEND frames and remembers them, bounded.

    `remote` names the broker that what is sent to a queue is for; the message waits for it in the
    store-and-forward queue of the broker that the client is connected to.
    """

    def __init__(self, remote: str | None = None) -> None:
        self.remote = remote
        self._heads: dict[tuple[Any, ...], bytes] = {}

    def head(self, destination: str, options: SendOptions, version: str) -> bytes:
        """The frame up to where `receipt` and `content-length` go, escaped for `version`.

        Raises ValueError for what cannot be forwarded to `remote`.
        """
        fixed = tuple([item for item in options.items() if item[0] not in _VARYING])
        key = (destination, version, fixed)
        head = self._heads.get(key)
        if head is None:
            lines = [("destination", self._addressed(destination)), *_lines(fixed)]
            head = wire.SEND + b"\n" + encode_headers(lines, version)
            if len(self._heads) >= _HEADS:
                self._heads.clear()
            self._heads[key] = head
        if len(fixed) == len(options):
            return head
        varying = [item for item in options.items() if item[0] in _VARYING and item[0] != "headers"]
        own = options.get("headers") or {}
        return head + encode_headers([*_lines(varying), *own.items()], version)

    def forwards(self, destination: str) -> bool:
        """True if messages sent there are for another broker."""
        return self.remote is not None and destination.startswith(_FORWARDED)

    def _addressed(self, destination: str) -> str:
        """The destination of the message at this broker."""
        return forwarding_address(destination, self.remote) if self.forwards(destination) else destination


def forwarding_address(destination: str, broker: str | None) -> str:
    """The store-and-forward queue of a queue, named with or without /queue/, of a remote broker.

    Raises ValueError if a name is missing, is no queue, or is too long.
    """
    remote = checked_broker(broker)
    if destination.startswith("/") and not destination.startswith(_QUEUE):
        raise ValueError(f"{destination[:80]} is no queue; only messages for queues can be forwarded")
    queue = destination.removeprefix(_QUEUE)
    return destination if queue.startswith(PREFIX) else forwarded(remote, queue).address


def checked_broker(broker: str | None) -> str:
    """The name of a bridge to a remote broker. Raises ValueError where it is missing or none."""
    if broker is None:
        raise ValueError('store_and_forward needs the broker to forward to: broker="its bridge\'s name"')
    return forwarded(broker, "any").broker


def _lines(options: Any) -> list[tuple[str, str]]:
    return [(name.replace("_", "-"), _text(value)) for name, value in options if value is not None]


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
