"""Frames to bytes, and the escaping of the three versions: none in 1.0, LF, colon and backslash in 1.1,
and CR too in 1.2. What 1.0 cannot say stays in the spelling of 1.2.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from .errors import Fault
from .frame import NEVER_ESCAPED, WITH_BODY

VERSIONS: Final = ("1.0", "1.1", "1.2")

_MEANING: Final[dict[str, dict[str, str]]] = {
    "1.0": {},
    "1.1": {"\\n": "\n", "\\c": ":", "\\\\": "\\"},
    "1.2": {"\\n": "\n", "\\c": ":", "\\\\": "\\", "\\r": "\r"},
}
_SPELLING: Final = {
    # 1.0 has no escapes. A line feed would end the header, so it keeps the spelling of 1.2.
    "1.0": {"\n": "\\n"},
    "1.1": {meaning: spelling for spelling, meaning in _MEANING["1.1"].items()},
    "1.2": {meaning: spelling for spelling, meaning in _MEANING["1.2"].items()},
}
_TABLE: Final = {version: str.maketrans(spelling) for version, spelling in _SPELLING.items()}
_NEEDS_ESCAPE: Final = re.compile(r"[\\\n\r:]")
_SEQUENCE: Final = re.compile(r"\\.?", re.DOTALL)


def escape(text: str, version: str = "1.2") -> str:
    """Spell a header name or value for the wire of `version`."""
    return text.translate(_TABLE[version]) if _NEEDS_ESCAPE.search(text) else text


def unescape(text: str, version: str = "1.2", line: str = "") -> str:
    """Undo `escape`. Raises Fault(bad-escape) for a sequence that `version` does not know; the header `line`
    in which it stands is named."""
    if "\\" not in text or version == "1.0":
        return text
    meanings = _MEANING[version]

    def meaning(match: re.Match[str]) -> str:
        sequence = match.group()
        if sequence not in meanings:
            known = " ".join(meanings)
            shown = repr((line or text)[:80]).replace("\\\\", "\\")
            raise Fault("bad-escape", f"the header line {shown} has the escape {sequence}; "
                                      f"STOMP {version} knows {known} only")  # fmt: skip
        return meanings[sequence]

    return _SEQUENCE.sub(meaning, text)


def encode_headers(headers: Iterable[tuple[str, str]], version: str = "1.2") -> bytes:
    """Header lines ``name:value\\n…`` in the escaping of `version`."""
    items = list(headers)
    plain = "".join([f"{name}:{value}\n" for name, value in items])
    # As a rule nothing needs an escape: three scans of the whole are cheaper than two for each header.
    if "\\" not in plain and "\r" not in plain and plain.count(":") == plain.count("\n") == len(items):
        return plain.encode()
    return "".join([f"{_name(name, version)}:{escape(value, version)}\n" for name, value in items]).encode()


def _name(name: str, version: str) -> str:
    # An unescaped colon in a name would move the border between name and value.
    return escape(name, version).replace(":", "\\c")


def encode(
    command: bytes,
    headers: Mapping[str, str] | Iterable[tuple[str, str]] = (),
    body: bytes = b"",
    *,
    version: str = "1.2",
    content_length: bool = True,
) -> bytes:
    """One whole frame as bytes.

    `content-length` is added to frames that may have a body unless switched off; then a body with a
    NUL raises ValueError, since it would end the frame. CONNECT, STOMP and
    CONNECTED are never escaped: a value that would need it raises ValueError.
    """
    items = headers.items() if isinstance(headers, Mapping) else headers
    lines = _plain_lines(command, items) if command in NEVER_ESCAPED else encode_headers(items, version)
    if content_length and (body or command in WITH_BODY):
        return b"%b\n%bcontent-length:%d\n\n%b\0" % (command, lines, len(body), body)
    if b"\0" in body:
        raise ValueError("a body with a NUL byte needs a content-length")
    return b"%b\n%b\n%b\0" % (command, lines, body)


def _plain_lines(command: bytes, items: Iterable[tuple[str, str]]) -> bytes:
    lines = []
    for name, value in items:
        if ":" in name or any(control in name or control in value for control in "\r\n\0"):
            raise ValueError(
                f"the header {name!r} of {command.decode()} has a control character, or a colon in its name"
            )
        lines.append(f"{name}:{value}\n")
    return "".join(lines).encode()


_BYTE_SEQUENCE: Final = re.compile(rb"\\(.)")
_LINE: Final = re.compile(rb"([^:\n]*):([^\n]*)\n")


def convert_block(block: bytes, version: str) -> bytes:
    """Re-spell header lines ``name:value\\n…``, escaped for 1.2, for a peer of another version."""
    if version == "1.2" or b"\\" not in block:
        return block
    if version == "1.1":
        return _BYTE_SEQUENCE.sub(lambda match: b"\r" if match[1] == b"r" else match[0], block)

    def line(match: re.Match[bytes]) -> bytes:
        name = _BYTE_SEQUENCE.sub(lambda sequence: _in_1_0(sequence, colon=b"\\c"), match[1])
        value = _BYTE_SEQUENCE.sub(lambda sequence: _in_1_0(sequence, colon=b":"), match[2])
        return name + b":" + value + b"\n"

    return _LINE.sub(line, block)


def _in_1_0(sequence: re.Match[bytes], colon: bytes) -> bytes:
    return {b"c": colon, b"\\": b"\\", b"r": b"\r", b"n": b"\\n"}[sequence[1]]
