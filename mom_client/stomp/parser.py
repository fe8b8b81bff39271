"""Bytes to frames, in any pieces.

A frame on the wire, volatile lines marked::

    SEND\\n                     command line
    destination:/queue/a\\n   ┐
    receipt:r-17\\n         * │ header block, ended by an empty line
    content-length:3\\n     * ┘
    \\n
    abc\\0                      body, ended by NUL (inside it NUL is data when content-length is given)

Two paths give the same frames. The strict path knows the whole grammar. The hot path serves what most
frames are, SEND with a header block seen before, ACKs and RECEIPTs in runs: it cuts the volatile lines
out and looks the rest up. It takes only what the strict path would take, so it has no rules of its own.
"""

import re
from io import BytesIO
from typing import Final, Literal, NamedTuple

from .errors import Fault, Malformed
from .frame import (
    CLIENT_COMMANDS,
    MESSAGE,
    SEND,
    SERVER_COMMANDS,
    WITH_BODY,
    AckRun,
    Frame,
    Headers,
    ReceiptRun,
)
from .grammar import LONGEST_NUMBER, Grammar, Limits, without_body

__all__ = ["READ_BYTES", "Limits", "Parser"]


_DEFAULT_LIMITS: Final = Limits()

#: Header blocks remembered per parser, and their bytes together. Full means start afresh: a client
#: whose blocks never repeat then pays little, and cannot make us keep more.
_CACHE_BLOCKS: Final = 128
_CACHE_BYTES: Final = 32 * 1024

_ACK_RUN: Final = re.compile(rb"(?:ACK\nid:[!-9;-\[\]-~]{1,255}+\n\n\0)++")
#: as MOM and its peers end frames (NUL LF), and as STOMP allows too (NUL)
_RECEIPT: Final = rb"RECEIPT\nreceipt-id:[!-9;-\[\]-~]{1,255}+\n\n\0"
_RECEIPT_RUN: Final = re.compile(rb"(?:%b\n)++|(?:%b)++" % (_RECEIPT, _RECEIPT))
_HEADER_LINE: Final = re.compile(r"\n([^:\n]+):([^\n]*)")
#: headers with another value in each frame, in blocks that repeat but for it
_VARYING: Final = (("correlation-id", b"\ncorrelation-id:"), ("channel-call", b"\nchannel-call:"))
#: headers of the frame, which are cut out before a block is looked up
_VOLATILE: Final = frozenset(("receipt", "content-length"))
_EOLS: Final = re.compile(rb"[\r\n]*+")
_LONGEST_HOT_RECEIPT: Final = 256
#: Frames that the hot path cannot read may be searched for its end of a head in vain, but not far.
_LONGEST_HOT_HEAD: Final = 4 * 1024
#: Bytes a receipt may have on the hot path: printable ASCII that needs no unescaping.
_PLAIN: Final = bytes(byte for byte in range(0x20, 0x7F) if byte != 0x5C)
#: The longest frames of a run.
_LONGEST_ACK: Final = len(b"ACK\nid:\n\n\0") + 255
_LONGEST_RECEIPT: Final = len(b"RECEIPT\nreceipt-id:\n\n\0\n") + 255
#: The bytes that are read at once, a millisecond's work or two, and those for which a frame counts whose head
#: is parsed.
READ_BYTES: Final = 64 * 1024
_STRICT_BYTES: Final = 512

_S, _A, _M = b"SAM"


class _Layout(NamedTuple):
    """A SEND as bytes: `before`, the receipt, `after`, `size` bytes of body, NUL."""

    before: bytes
    after: bytes
    headers: Headers
    size: int


_NO_LAYOUT: Final = _Layout(b"\0", b"\0\0", Headers(), 0)  # `after` begins with an LF where it fits


class _OpenFrame:
    """A frame whose header block is read and whose body is still arriving."""

    __slots__ = ("body", "command", "headers", "length", "receipt")

    def __init__(self, command: bytes, headers: Headers, receipt: bytes | None, length: int | None) -> None:
        self.command = command
        self.headers = headers
        self.receipt = receipt
        self.length = length  #: content-length, None when the body ends at the first NUL
        self.body = BytesIO()  # which gives its content without a copy at the end


class Parser:
    """Turns the bytes of one connection into frames.

    `role` is ours: a server reads CONNECT, SEND, …; a client reads CONNECTED, MESSAGE, ….
    `strict` switches the hot path off.
    """

    def __init__(
        self,
        *,
        limits: Limits = _DEFAULT_LIMITS,
        role: Literal["server", "client"] = "server",
        strict: bool = False,
    ) -> None:
        self._grammar = Grammar(CLIENT_COMMANDS if role == "server" else SERVER_COMMANDS, limits)
        self._hot = not strict
        hot = Parser._read_from_client if role == "server" else Parser._read_from_server
        # A function: a method that is bound to this object would keep it until the garbage is collected.
        self._read = Parser._read_all_strictly if strict else hot
        self._pending = b""  # an unfinished header block
        self._searched = 0  # so much of it has neither an empty line nor a NUL
        self._unread = b""  # received, with what was read of it
        self._unread_at = 0
        self._open: _OpenFrame | None = None
        self._finished = False
        self._cache: dict[bytes, Headers] = {}
        self._cached_bytes = 0
        self._layout = _NO_LAYOUT
        self._last_number = b""  # content-length of the last SEND that had one and a receipt
        self._is_new = False  # whether the hot path met a block that is not in the cache
        self._version = "1.2"
        self.limits = limits

    @property
    def limits(self) -> Limits:
        """May be replaced between two calls, say when a session has logged in."""
        return self._limits

    @limits.setter
    def limits(self, limits: Limits) -> None:
        self._limits = self._grammar.limits = limits
        self._longest_receipt = min(limits.max_header_line - len(b"receipt:"), _LONGEST_HOT_RECEIPT)
        # The layout may meet a longer receipt than this one, and must stay within the limit with it.
        self._longest_hot_head = min(limits.max_header_bytes - _LONGEST_HOT_RECEIPT, _LONGEST_HOT_HEAD)
        self.forget()

    @property
    def version(self) -> str:
        """The negotiated version; governs unescaping of all that is read from now on."""
        return self._version

    @version.setter
    def version(self, version: str) -> None:
        self._version = self._grammar.version = version
        self.forget()

    @property
    def has_partial(self) -> bool:
        """True while a frame has begun and not ended: the peer owes us bytes."""
        return bool(self._pending) or self._open is not None

    @property
    def buffered(self) -> int:
        """Bytes held of the unfinished frame."""
        return len(self._pending) + (self._open.body.tell() if self._open is not None else 0)

    @property
    def has_unread(self) -> bool:
        """True while `read` has more to read of what was put."""
        return bool(self._unread)

    def receive(self, data: bytes) -> list[Frame | AckRun | Malformed]:
        """All that `data` completes, in order. A Malformed comes last; the parser is finished after it."""
        self.put(data)
        frames = self.read()
        while self._unread:
            frames += self.read()
        return frames

    def put(self, data: bytes) -> None:
        """Add what was received, to be read."""
        if self._unread:
            data, self._unread_at = self._unread[self._unread_at :] + data, 0
        if not self._finished:
            self._unread = data

    def read(self, most: int = READ_BYTES) -> list[Frame | AckRun | Malformed]:
        """The next frames that are complete. None is begun behind `most` bytes; the rest stays unread. Frames
        whose head has to be parsed count for more bytes than they have, for they take longer."""
        frames: list[Frame | AckRun | Malformed] = []
        data, start = self._unread, self._unread_at
        self._unread, self._unread_at = b"", 0
        limit = start + most
        try:
            if self._open is not None:
                start = self._continue_body(self._open, data, frames)
            elif self._pending:
                data = self._pending + data
                self._pending = b""
                start = self._read_strictly(data, 0, frames)
            start = self._read(self, data, start, limit, frames)
            if start < len(data):
                self._unread, self._unread_at = data, start
        except Fault as fault:
            self._end()
            frames.append(fault.malformed)
        return frames

    def discard(self) -> None:
        """Read nothing more: the connection has ended."""
        self._end()
        self._unread = b""

    def _end(self) -> None:
        self._finished = True
        self._pending, self._open = b"", None
        self.forget()

    # -- the hot path -------------------------------------------------------------------------

    def _read_from_server(
        self, data: bytes, start: int, limit: int, frames: list[Frame | AckRun | Malformed]
    ) -> int:
        """Read the frames that begin in front of `limit`. Returns where to continue."""
        stop = min(limit, len(data))
        while start < stop:
            run = _RECEIPT_RUN.match(data, start, stop + _LONGEST_RECEIPT)
            if run is not None:
                run_end = run.end()
                end = b"\n\n\0\n" if data[run_end - 1] else b"\n\n\0"
                names = data[start + 19 : run_end - len(end)]
                frames.append(ReceiptRun(names.split(end + b"RECEIPT\nreceipt-id:")))
                start = run_end
                continue
            frame_end = self._read_plain_message(data, start, frames) if data[start] == _M else 0
            start = frame_end or self._read_strictly(data, start, frames)
            limit -= _STRICT_BYTES
            stop = min(limit, len(data))
        return start

    def _read_plain_message(self, data: bytes, start: int, frames: list[Frame | AckRun | Malformed]) -> int:
        """Read a MESSAGE with a content-length that is here whole, and in which nothing needs a second look:
        where the next frame begins, 0 if it is another one."""
        stop = data.find(b"\n\n", start, start + self._longest_hot_head)
        if stop < 0 or not data.startswith(b"MESSAGE\n", start):
            return 0
        headers = self._pairs(data[start:stop])
        if headers is None or "receipt" in headers:
            return 0
        number = headers.pop("content-length", "")
        if not (number.isascii() and number.isdigit()) or len(number) > LONGEST_NUMBER:
            return 0
        body_start = stop + 2
        body_end = body_start + int(number)
        if body_end >= len(data) or body_end - body_start > self._limits.max_body or data[body_end]:
            return 0
        frames.append(Frame(MESSAGE, headers, None, data[body_start:body_end]))
        return body_end + 2 if data[body_end + 1 : body_end + 2] == b"\n" else body_end + 1

    def _read_from_client(
        self, data: bytes, start: int, limit: int, frames: list[Frame | AckRun | Malformed]
    ) -> int:
        """Read the frames that begin in front of `limit`. Returns where to continue."""
        end = len(data)
        find = data.find
        startswith = data.startswith
        before, after, headers, size = self._layout
        longest = self._longest_receipt
        stop = min(limit, end)
        while start < stop:
            # Mostly a frame has the bytes of the last one but for its receipt and its body.
            if startswith(before, start):
                at = start + len(before)
                line_end = find(b"\n", at, at + longest)
                if startswith(after, line_end):
                    receipt = data[at:line_end]
                    body_start = line_end + len(after)
                    body_end = body_start + size
                    if body_end < end and not data[body_end] and not receipt.translate(None, _PLAIN):
                        frames.append(Frame(SEND, headers, receipt, data[body_start:body_end]))
                        start = body_end + 1
                        continue
            first = data[start]
            if first == _S:
                frame_end = self._read_known_send(data, start, frames)
                if frame_end:
                    before, after, headers, size = self._layout
                    start = frame_end
                    if self._is_new:
                        self._is_new = False
                        limit -= _STRICT_BYTES
                        stop = min(limit, end)
                    continue
            elif first == _A:
                run = _ACK_RUN.match(data, start, stop + _LONGEST_ACK)
                if run is not None:
                    run_end = run.end()
                    frames.append(AckRun(data[start + 7 : run_end - 3].split(b"\n\n\0ACK\nid:")))
                    start = run_end
                    continue
            start = self._read_strictly(data, start, frames)
            limit -= _STRICT_BYTES
            stop = min(limit, end)
        return start

    def _read_known_send(self, data: bytes, start: int, frames: list[Frame | AckRun | Malformed]) -> int:
        """Read a SEND whose header block is in the cache: where the next frame begins, 0 if it is not."""
        stop = data.find(b"\n\n", start, start + self._longest_hot_head)
        if stop < 0:
            return 0
        receipt, head = _cut(data[start:stop], b"\nreceipt:")
        number, head = _cut(head, b"\ncontent-length:")
        headers = self._cache.get(head) or self._plain_headers(head)
        if headers is None:
            return 0
        if receipt is not None and (receipt.translate(None, _PLAIN) or len(receipt) >= self._longest_receipt):
            return 0
        body_start = stop + 2
        if number is None:
            body_end = data.find(b"\0", body_start)
        elif number.isdigit() and len(number) <= LONGEST_NUMBER:
            body_end = body_start + int(number)
        else:
            return 0
        if not 0 < body_end < len(data) or body_end - body_start > self._limits.max_body or data[body_end]:
            return 0
        frames.append(Frame(SEND, headers, receipt, data[body_start:body_end]))
        if receipt is not None and number is not None:
            if number == self._last_number:
                before, name, rest = data[start:body_start].partition(b"\nreceipt:")
                self._layout = _Layout(before + name, rest[len(receipt) :], headers, int(number))
            self._last_number = number
        return body_end + 1

    def _plain_headers(self, head: bytes) -> Headers | None:
        """The headers of a block in which nothing needs a second look; None leaves it to the strict path.

        Blocks that never repeat come this way.
        """
        if not head.startswith(b"SEND\n"):
            return None
        headers = self._varied_headers(head)
        if headers is not None:
            return headers
        headers = self._pairs(head)
        if headers is None or not _VOLATILE.isdisjoint(headers):
            return None
        self._keep(head, headers)
        self._is_new = True
        return headers

    def _varied_headers(self, head: bytes) -> Headers | None:
        """The headers of a block with a varying value. The rest of it is kept, with an empty one. None for
        others."""
        if len(head) > self._limits.max_header_line:
            return None
        for name, line in _VARYING:
            at = head.find(line)
            if at < 0:
                continue
            begin = at + len(line)
            end = head.find(b"\n", begin)
            if end < 0:
                end = len(head)
            value, key = head[begin:end], b"\0" + head[:begin] + head[end:]  # no block begins so
            if not value or value.translate(None, _PLAIN):
                return None
            model = self._cache.get(key)
            if model is None:
                model = self._pairs(key[1:])
                if model is None or not _VOLATILE.isdisjoint(model):
                    return None
                self._keep(key, model)
                self._is_new = True
            headers = Headers(model, model)
            headers[name] = value.decode()
            return headers
        return None

    def _pairs(self, head: bytes) -> Headers | None:
        """The headers of a block without escapes, repeated headers or malformed lines; else None."""
        unusual = b"\\" in head or b"\r" in head or b"\0" in head or len(head) > self._limits.max_header_line
        # Two lines more are allowed for, which may have been cut out.
        lines = head.count(b"\n")
        if unusual or self._version == "1.0" or lines + len(_VOLATILE) > self._limits.max_headers:
            return None
        try:
            pairs = _HEADER_LINE.findall(head.decode())
        except UnicodeDecodeError:
            return None
        headers = Headers(pairs)
        # Fewer pairs than lines: one is malformed. Fewer headers than pairs: one is repeated.
        return headers if len(headers) == len(pairs) == lines else None

    def _remember(self, head: bytes, headers: Headers) -> None:
        """Keep what the strict path has found out about a header block."""
        _, head = _cut(head, b"\nreceipt:")
        _, head = _cut(head, b"\ncontent-length:")
        self._keep(head, headers)

    def _keep(self, head: bytes, headers: Headers) -> None:
        """Ensures: whatever block the hot path finds by this key means exactly `headers`."""
        # A CR may end a line or be data; two more header lines may come with the next frame.
        if b"\r" in head or head.count(b"\n") + 2 > self._limits.max_headers or len(head) > _CACHE_BYTES:
            return
        if len(self._cache) >= _CACHE_BLOCKS or self._cached_bytes + len(head) > _CACHE_BYTES:
            self._cache.clear()
            self._cached_bytes = 0
        if head not in self._cache:
            self._cache[head] = headers
            self._cached_bytes += len(head)

    def forget(self) -> None:
        """Assume nothing any more about what header bytes mean."""
        self._cache.clear()
        self._cached_bytes = 0
        self._layout = _NO_LAYOUT
        self._last_number = b""
        if self._open is not None:  # its headers came before, and are acted on when the body is there
            self._open.headers.plan = None

    # -- the strict path ----------------------------------------------------------------------

    def _read_all_strictly(
        self, data: bytes, start: int, limit: int, frames: list[Frame | AckRun | Malformed]
    ) -> int:
        """Read the frames that begin in front of `limit`. Returns where to continue."""
        while start < min(limit, len(data)):
            start = self._read_strictly(data, start, frames)
            limit -= _STRICT_BYTES
        return start

    def _read_strictly(self, data: bytes, start: int, frames: list[Frame | AckRun | Malformed]) -> int:
        """Read one frame at `start`, or put its beginning aside. Returns where to continue."""
        if data[start] in b"\r\n":  # heart-beats, and the EOLs allowed after a frame
            return _EOLS.match(data, start).end()  # type: ignore[union-attr]  # matches always
        end = len(data)
        command = self._grammar.command(data, start)
        searched, self._searched = self._searched, 0
        stop = self._grammar.header_end(data, start, searched) if command is not None else None
        if command is None or stop is None:
            self._pending = data[start:]
            self._searched = len(self._pending) if command is not None else 0
            return end
        head_end, body_start = stop
        head = data[start:head_end]
        headers, receipt, length = self._grammar.headers(command, head)
        if self._hot and command is SEND:
            self._remember(head, headers)
        self._open = _OpenFrame(command, headers, receipt, length)
        return self._continue_body(self._open, data, frames, body_start)

    def _continue_body(
        self, frame: _OpenFrame, data: bytes, frames: list[Frame | AckRun | Malformed], start: int = 0
    ) -> int:
        """Take what `data` has of the body of `frame`. Returns where the next frame begins."""
        body = frame.body
        stop = self._body_end(frame, data, start)
        if stop is None:
            body.write(data[start:])
            return len(data)
        self._open = None
        if body.tell():
            body.write(data[start:stop])
            whole = body.getvalue()
        else:
            whole = data[start:stop]
        if whole and frame.command not in WITH_BODY:
            if whole.strip(b"\r\n"):
                raise without_body(frame.command)
            whole = b""
        frames.append(Frame(frame.command, frame.headers, frame.receipt, whole))
        stop += 1
        return stop + 1 if data[stop : stop + 1] == b"\n" else stop

    def _body_end(self, frame: _OpenFrame, data: bytes, start: int) -> int | None:
        """Index in `data` of the NUL that ends `frame`, None when it is yet to come."""
        if frame.length is None:
            stop = data.find(b"\0", start)
            size = frame.body.tell() + (stop if stop >= 0 else len(data)) - start
            self._grammar.check_size(frame.command, size, f"at least {size} bytes", frame.receipt)
            return stop if stop >= 0 else None
        stop = start + frame.length - frame.body.tell()
        if stop >= len(data):
            return None
        if data[stop]:
            missing = "the NUL that ends a frame is missing after the"
            detail = f"{missing} {frame.length} bytes of its content-length"
            raise Fault("missing-nul", detail, frame.receipt)
        return stop


def _cut(head: bytes, name: bytes) -> tuple[bytes | None, bytes]:
    """Take the first header line that begins with `name` (LF and colon included) out: its value, the rest."""
    at = head.find(name)
    if at < 0:
        return None, head
    value = at + len(name)
    line_end = head.find(b"\n", value)
    if line_end < 0:
        return head[value:], head[:at]
    return head[value:line_end], head[:at] + head[line_end:]
