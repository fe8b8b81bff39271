"""Frames: command, shared headers, receipt and body."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

CONNECT: Final = b"CONNECT"
STOMP: Final = b"STOMP"
CONNECTED: Final = b"CONNECTED"
SEND: Final = b"SEND"
SUBSCRIBE: Final = b"SUBSCRIBE"
UNSUBSCRIBE: Final = b"UNSUBSCRIBE"
ACK: Final = b"ACK"
NACK: Final = b"NACK"
BEGIN: Final = b"BEGIN"
COMMIT: Final = b"COMMIT"
ABORT: Final = b"ABORT"
DISCONNECT: Final = b"DISCONNECT"
MESSAGE: Final = b"MESSAGE"
RECEIPT: Final = b"RECEIPT"
ERROR: Final = b"ERROR"

#: Maps the bytes on the wire to the one interned constant, so that commands compare by identity first.
CLIENT_COMMANDS: Final = {
    command: command
    for command in (
        CONNECT, STOMP, SEND, SUBSCRIBE, UNSUBSCRIBE, ACK, NACK, BEGIN, COMMIT, ABORT, DISCONNECT,
    )
}  # fmt: skip
SERVER_COMMANDS: Final = {command: command for command in (CONNECTED, MESSAGE, RECEIPT, ERROR)}

#: Only these may have a body (STOMP 1.2, "Body").
WITH_BODY: Final = frozenset((SEND, MESSAGE, ERROR))
#: Never escaped in any version, so that a 1.0 peer can read them (STOMP 1.2, "Value Encoding").
NEVER_ESCAPED: Final = frozenset((CONNECT, STOMP, CONNECTED))


class Headers(dict[str, str]):
    """A parsed header block: unescaped, in order, first occurrence wins.

    Frames with equal header bytes share one object: treat it as immutable. `receipt` and
    `content-length` are never in it (see Frame).
    """

    __slots__ = ("model", "plan")

    #: A free slot in which a session keeps what it derived from these headers.
    plan: Any
    #: The headers that equal these but for one value that is another one in each frame, if they are known.
    model: "Headers | None"

    def __init__(
        self, items: Mapping[str, str] | Iterable[tuple[str, str]] = (), model: "Headers | None" = None
    ) -> None:
        super().__init__(items)
        self.plan = None
        self.model = model


class Frame:
    """One frame as it came from the wire."""

    __slots__ = ("body", "command", "headers", "receipt")

    def __init__(
        self, command: bytes, headers: Headers, receipt: bytes | None = None, body: bytes = b""
    ) -> None:
        self.command = command  #: one of the constants of this module
        self.headers = headers
        self.receipt = receipt  #: raw value of the receipt header, still escaped: echo it as it is
        self.body = body

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Frame):
            return NotImplemented
        return (self.command, self.headers, self.receipt, self.body) == (
            other.command, other.headers, other.receipt, other.body,
        )  # fmt: skip

    __hash__ = None  # type: ignore[assignment]  # holds a dict

    def __repr__(self) -> str:
        headers = dict(self.headers)
        return f"Frame({self.command!r}, {headers!r}, receipt={self.receipt!r}, {len(self.body)} B)"


class AckRun:
    """Consecutive plain ``ACK\\nid:…`` frames: no receipt, no transaction, nothing to unescape."""

    __slots__ = ("ids",)

    def __init__(self, ids: list[bytes]) -> None:
        self.ids = ids  #: at least one

    def __eq__(self, other: object) -> bool:
        return self.ids == other.ids if type(other) is type(self) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.ids!r})"


class ReceiptRun(AckRun):
    """The same for consecutive ``RECEIPT\\nreceipt-id:…`` frames, which a client gets."""

    __slots__ = ()
