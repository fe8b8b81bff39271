"""A client's STOMP connection, without I/O: bytes and times in, frames and bytes out.

connecting ──CONNECTED──► connected ──DISCONNECT──► closing
    │                         │                        │
    └──────────── ERROR or malformed bytes ────────────┴──► closed
"""

import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from . import frame as wire
from .encode import VERSIONS, encode
from .errors import Malformed
from .frame import AckRun, Frame
from .parser import Limits, Parser

#: How much longer than agreed the broker may be silent, for slow networks and busy loops.
TOLERANCE: Final = 2.0


class State(enum.Enum):
    CONNECTING = "connecting"
    CONNECTED = "connected"
    CLOSING = "closing"
    CLOSED = "closed"


#: The frames that the broker may send, and the state that each leads to.
_EXPECTED: Final[Mapping[State, Mapping[bytes, State]]] = {
    State.CONNECTING: {wire.CONNECTED: State.CONNECTED, wire.ERROR: State.CLOSED},
    State.CONNECTED: {
        wire.MESSAGE: State.CONNECTED, wire.RECEIPT: State.CONNECTED, wire.ERROR: State.CLOSED,
    },
    State.CLOSING: {wire.MESSAGE: State.CLOSING, wire.RECEIPT: State.CLOSING, wire.ERROR: State.CLOSED},
    State.CLOSED: {},
}  # fmt: skip


class Connection:
    """One connection. `heart_beat_s`: the intervals at which we can send, and want to receive (0: never)."""

    def __init__(
        self,
        *,
        versions: Sequence[str] = VERSIONS,
        heart_beat_s: tuple[float, float] = (10.0, 10.0),
        limits: Limits = Limits(),  # noqa: B008 -- immutable
    ) -> None:
        self.state = State.CONNECTING
        self.headers: Mapping[str, str] = {}  #: of the CONNECTED frame
        self._versions = versions
        self._offered_s = heart_beat_s
        self._parser = Parser(role="client", limits=limits)
        self._send_interval_s = self._timeout_s = 0.0
        self._last_sent = self._last_received = 0.0

    @property
    def version(self) -> str:
        """The version that was agreed upon."""
        return self._parser.version

    def connect(self, headers: Mapping[str, str], now: float) -> bytes:
        """The CONNECT frame; `headers` has host, login, passcode and what else the broker understands."""
        self._last_sent = self._last_received = now
        beats = ",".join(str(round(seconds * 1000)) for seconds in self._offered_s)
        fixed = {"accept-version": ",".join(self._versions), "heart-beat": beats}
        return encode(wire.CONNECT, {**fixed, **headers}, content_length=False)

    def disconnect(self, receipt: str) -> bytes:
        """The DISCONNECT frame; its receipt confirms all frames before it."""
        self.state = State.CLOSING
        return self.encode(wire.DISCONNECT, {"receipt": receipt})

    def encode(
        self, command: bytes, headers: Mapping[str, str] | Iterable[tuple[str, str]] = (), body: bytes = b""
    ) -> bytes:
        """A frame in the version that was agreed upon."""
        return encode(command, headers, body, version=self.version)

    def settle(self, message: Frame, requeue: bool | None, extra: Mapping[str, str]) -> bytes:
        """An ACK for `message`, or a NACK, which returns (`requeue`) or dead-letters it; `extra` headers."""
        given = message.headers
        if self.version == "1.2":
            id = given.get("ack", "")
            if requeue is None and not extra and id.isalnum() and id.isascii():  # the usual, made quickly
                return b"ACK\nid:%b\n\n\0" % id.encode()
            named = {"id": id}
        else:
            named = {"message-id": given.get("message-id", "")}
            if "subscription" in given:
                named["subscription"] = given["subscription"]
        if requeue is False:
            named["requeue"] = "false"
        return self.encode(wire.ACK if requeue is None else wire.NACK, {**named, **extra})

    @property
    def has_unread(self) -> bool:
        """True while there is more to receive of what was given."""
        return self._parser.has_unread

    def receive(self, data: bytes, now: float) -> list[Frame | AckRun | Malformed]:
        """The next of the broker's frames, with `data`; none of it while `has_unread`. After a Malformed or
        an ERROR the connection is closed."""
        if data:
            self._last_received = now
        items = self._read(data) if self.state is not State.CONNECTING else self._begin(data)
        for index, item in enumerate(items):
            if self.state is State.CONNECTED and type(item) is Frame and item.command is wire.MESSAGE:
                continue  # most are, and change nothing
            error = self._follow(item)
            if error is not None:
                self.state = State.CLOSED
                return [*items[:index], error]
        return items

    def _begin(self, data: bytes) -> list[Frame | AckRun | Malformed]:
        """Read CONNECTED alone first, since its version governs what follows in the same bytes."""
        end = data.find(b"\0") + 1
        items = self._parser.receive(data[:end] if end else data)
        if items and isinstance(items[0], Frame) and items[0].command is wire.CONNECTED:
            error = self._negotiate(items[0].headers)
            if error is not None:
                return [error]
        return items + self._read(data[end:]) if end else items

    def _read(self, data: bytes) -> list[Frame | AckRun | Malformed]:
        if data:
            self._parser.put(data)
        return self._parser.read()

    def _negotiate(self, headers: Mapping[str, str]) -> Malformed | None:
        version = headers.get("version", "1.0")
        if version not in self._versions:
            return Malformed("unsupported-version", f"the broker chose version {version[:20]!r}")
        theirs, comma, ours = headers.get("heart-beat", "0,0").partition(",")
        if not (comma and theirs.isdigit() and ours.isdigit()):
            return Malformed("malformed-frame", f"the broker's heart-beat is {headers['heart-beat'][:40]!r}")
        can_send_s, want_s = self._offered_s
        if can_send_s and int(ours):
            self._send_interval_s = max(can_send_s, int(ours) / 1000)
        if want_s and int(theirs):
            self._timeout_s = max(want_s, int(theirs) / 1000) * TOLERANCE
        self._parser.version = version
        self.headers = headers
        return None

    def _follow(self, item: Frame | AckRun | Malformed) -> Malformed | None:
        if isinstance(item, Malformed):
            return item
        command = item.command if isinstance(item, Frame) else wire.RECEIPT
        state = _EXPECTED[self.state].get(command)
        if state is None:
            return Malformed("malformed-frame", f"{command.decode()} came while {self.state.value}")
        self.state = state
        return None

    # -- heart-beats ---------------------------------------------------------------------------

    def on_sent(self, now: float) -> None:
        """Something was sent."""
        self._last_sent = now

    def heart_beat_due(self) -> float | None:
        """The latest time to send the next heart-beat, None for never."""
        return self._last_sent + self._send_interval_s / TOLERANCE if self._send_interval_s else None

    def timeout_at(self) -> float | None:
        """The time at which the broker counts as lost if nothing is received until then, None for never."""
        return self._last_received + self._timeout_s if self._timeout_s else None
