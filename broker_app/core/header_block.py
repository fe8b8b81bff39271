"""Header blocks: a message's lines `name:value`, in the escaping of STOMP 1.2, each ended by a newline."""

from __future__ import annotations

_ESCAPED = {"\\": "\\\\", "\r": "\\r", "\n": "\\n", ":": "\\c"}

#: the names of the header that names a group, the first one that is not empty counts
GROUPS = ("group", "JMSXGroupID", "_AMQ_GROUP_ID", "message_group")
_GROUP = tuple(f"{name}:".encode() for name in GROUPS)
#: "true" in a message that its client sends again, because it got no receipt
RESENT = "resent"
_RESENT = f"{RESENT}:true\n".encode()


def escape(value: str) -> str:
    """Escape a header name or value as STOMP 1.2 does."""
    return "".join(_ESCAPED.get(character, character) for character in value)


def unescape(value: str) -> str:
    """The opposite of `escape`."""
    if "\\" not in value:
        return value
    parts = value.split("\\\\")
    for escaped, plain in (("\\r", "\r"), ("\\n", "\n"), ("\\c", ":")):
        parts = [part.replace(escaped, plain) for part in parts]
    return "\\".join(parts)


def headers(block: bytes) -> dict[str, str]:
    """The headers of a block; of a name that comes twice the first value counts."""
    found: dict[str, str] = {}
    for line in block.decode().split("\n"):
        name, colon, value = line.partition(":")
        if colon and name not in found:
            found[name] = value
    if b"\\" in block:
        return {unescape(name): unescape(value) for name, value in found.items()}
    return found


def group(block: bytes) -> str:
    """The message group that a block names, empty for none."""
    if not any(name in block for name in _GROUP):
        return ""
    found = headers(block)
    return next((found[name] for name in GROUPS if found.get(name)), "")


def is_resent(block: bytes) -> bool:
    """Return whether the client has sent the message before, and got no receipt."""
    return _RESENT in block and headers(block)[RESENT] == "true"
