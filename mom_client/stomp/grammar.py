"""The grammar of frames: the command line, the header block, and how long a body may be.

It knows nothing of pieces: what it reads is in one block of bytes, or not there yet.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from .encode import unescape
from .errors import Fault
from .frame import CONNECT, NEVER_ESCAPED, WITH_BODY, Headers

_BLANK_LINE: Final = re.compile(rb"\n\r?\n")
_HTTP: Final = re.compile(rb"(?:GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS|CONNECT|TRACE|PRI) ")
#: Old clients end every frame with an EOL or two before the NUL; no more is forgiven.
_STRAY_EOLS: Final = 8
#: around the values of 1.0
_BLANKS: Final = " \t"
#: digits of a content-length that int() need look at
LONGEST_NUMBER: Final = 18
_TLS_HANDSHAKE: Final = 0x16


@dataclass(frozen=True, slots=True)
class Limits:
    """The size limits of a frame; what exceeds them is refused before it is buffered."""

    max_header_bytes: int = 64 * 1024  #: command line and header block together
    max_headers: int = 256  #: header lines
    #: bytes of one header line; at least 280, since runs of short frames are not measured line by line
    max_header_line: int = 16 * 1024
    max_command: int = 64  #: bytes of the command line
    max_body: int = 64 * 1024 * 1024  #: bytes of the body


class Grammar:
    """Reads the parts of a frame. `commands` are those that the peer may send; `version` is the negotiated
    one, which governs unescaping. Methods raise Fault."""

    __slots__ = ("_commands", "limits", "version")

    def __init__(self, commands: Mapping[bytes, bytes], limits: Limits) -> None:
        self._commands = commands
        self.limits = limits
        self.version = "1.2"

    def command(self, data: bytes, start: int) -> bytes | None:
        """The command, None while its line is unfinished."""
        if data[start] == _TLS_HANDSHAKE:
            raise Fault("tls-on-stomp-port", "this looks like TLS, and this port speaks plain STOMP")
        limit = self.limits.max_command
        line_end = data.find(b"\n", start, start + limit + 2)
        stop = line_end if line_end >= 0 else min(len(data), start + limit + 2)
        if data.find(b"\0", start, stop) >= 0:
            raise Fault("malformed-frame", "a NUL byte stands in the command line; no empty line followed it")
        line = data[start:stop].removesuffix(b"\r")
        if line_end < 0 and stop - start < limit + 2:
            return None
        if line_end < 0 or len(line) > limit:
            if _HTTP.match(line):
                raise _http()
            raise Fault("too-large", f"the command line is longer than the {limit} bytes that are allowed")
        command = self._commands.get(line)
        if command is None:
            if _HTTP.match(line):
                raise _http()
            raise Fault("unknown-command", f"the command {_quoted(line)} is unknown")
        return command

    def header_end(self, data: bytes, start: int, searched: int) -> tuple[int, int] | None:
        """The end of the header block and the start of the body, None while it is unfinished. So many bytes
        of it were `searched` before."""
        limit = self.limits.max_header_bytes
        unsearched = max(start, start + searched - 2)  # an empty line may have begun
        blank = _BLANK_LINE.search(data, unsearched, start + limit + 3)
        stop = blank.start() if blank is not None else min(len(data), start + limit + 3)
        if data.find(b"\0", unsearched, stop) >= 0:
            raise Fault("malformed-frame", "a NUL byte stands in the headers; no empty line ended them")
        if blank is None and stop - start < limit + 3:
            return None
        if blank is None or stop - start > limit:
            raise Fault("too-large", f"the headers are longer than the {limit} bytes that are allowed: "
                                     f"at least {stop - start} were sent")  # fmt: skip
        return stop, blank.end()

    def headers(self, command: bytes, head: bytes) -> tuple[Headers, bytes | None, int | None]:
        """Parse the lines after the command line: headers, raw receipt, content-length."""
        version = "1.0" if command in NEVER_ESCAPED else self.version
        try:
            text = head.decode()
        except UnicodeDecodeError as error:
            wrong = head[: error.start].rpartition(b"\n")[2] + head[error.start :].partition(b"\n")[0]
            detail = f"the header line {_quoted(wrong)} is not valid UTF-8: {error.reason}"
            raise Fault("not-utf8", detail) from None
        lines = text.split("\n")
        if "\r" in text:
            lines = _without_cr(lines, version)
        del lines[0]  # the command
        self._check_lines(head, lines)
        found: dict[str, str] = {}
        receipt: str | None = None
        escapes = "\\" in text
        for line in lines:
            name, colon, value = line.partition(":")
            if not colon or not name:
                raise Fault("malformed-frame", f"the header line {line[:80]!r} is not of the form name:value")
            if name == "receipt" and receipt is None:
                receipt = value
            if escapes:
                name, value = unescape(name, version, line), unescape(value, version, line)
            if name not in found:
                found[name] = value
        if self._trims(command, found):
            found = {name: value.strip(_BLANKS) for name, value in found.items()}
        encoded = None if receipt is None else receipt.encode()
        length = self._content_length(found.get("content-length"), command, encoded)
        headers = Headers(found)
        headers.pop("receipt", None)
        headers.pop("content-length", None)
        return headers, encoded, length

    def _trims(self, command: bytes, found: dict[str, str]) -> bool:
        """Return whether blanks around values count as none: in 1.0, whose text writes its examples so. The
        blanks of a receipt come back as they were."""
        if command is CONNECT:
            return "accept-version" not in found
        return self.version == "1.0" and command not in NEVER_ESCAPED

    def _check_lines(self, head: bytes, lines: list[str]) -> None:
        limits = self.limits
        count, most = len(lines), limits.max_headers
        if count > most:
            raise Fault("too-many-headers", f"the frame has {count} headers, allowed are {most}")
        if len(head) > limits.max_header_line:
            longest, most = max(map(len, head.split(b"\n")[1:]), default=0), limits.max_header_line
            if longest > most:
                raise Fault("too-large", f"a header line has {longest} bytes, allowed are {most}")

    def _content_length(self, value: str | None, command: bytes, receipt: bytes | None) -> int | None:
        if value is None:
            return None
        value = value.strip(_BLANKS)  # as peers do in each version
        if not (value.isascii() and value.isdigit()):
            detail = f"the content-length {value[:40]!r} is not a number of bytes"
            raise Fault("bad-content-length", detail, receipt)
        if len(value) > LONGEST_NUMBER:
            raise Fault("too-large", f"the content-length has {len(value)} digits", receipt)
        length = int(value)
        self.check_size(command, length, f"{length} bytes", receipt)
        return length

    def check_size(self, command: bytes, size: int, seen: str, receipt: bytes | None) -> None:
        if command not in WITH_BODY:
            if size > _STRAY_EOLS:
                raise without_body(command)
        elif size > self.limits.max_body:
            raise Fault("too-large", f"the body has {seen}, allowed are {self.limits.max_body}", receipt)


def _without_cr(lines: list[str], version: str) -> list[str]:
    """Take the CR of CRLF off; elsewhere it is data for 1.0 and 1.1 and illegal in 1.2."""
    if version == "1.2" or lines[0].endswith("\r"):
        lines = [line.removesuffix("\r") for line in lines]
    if version == "1.2":
        for line in lines:
            if "\r" in line:
                raise Fault("malformed-frame", f"the header line {line[:80]!r} has a carriage return inside")
    return lines


def _quoted(line: bytes) -> str:
    return repr(line[:80])[1:]


def without_body(command: bytes) -> Fault:
    """The fault of a frame with a body that its command does not allow."""
    return Fault("malformed-frame", f"{command.decode()} frames must not have a body")


def _http() -> Fault:
    return Fault("http-on-stomp-port", "this is an HTTP request, and this port speaks STOMP")
