"""Negotiation at CONNECT: the version of STOMP, and heart-beats."""

from __future__ import annotations

from broker_app.base.refused import Refused

VERSIONS = ("1.2", "1.1", "1.0")
#: shortest interval of heart-beats
FASTEST_BEAT_MS = 250


class UnsupportedVersion(Refused):
    """The client supports none of `VERSIONS`; the ERROR lists them."""

    def __init__(self, detail: str) -> None:
        super().__init__("unsupported-version", detail)


def version(accepted: str) -> str:
    """Return the newest common version, given the `accept-version` of a CONNECT. Raises
    UnsupportedVersion."""
    offered = {version.strip() for version in accepted.split(",")}
    for version in VERSIONS:
        if version in offered:
            return version
    raise UnsupportedVersion(
        f"the versions {accepted[:80]!r} are not supported; the broker supports 1.0, 1.1 and 1.2"
    )


def heart_beats(text: str, ours_ms: int) -> tuple[float, float]:
    """Return the seconds between heart-beats (from the client, to the client) that follow from its
    `heart-beat` header; 0 is none. `ours_ms` is the broker's offer; 0 is none."""
    sends, _, expects = text.partition(",")
    both_are_numbers = sends.strip().isdigit() and expects.strip().isdigit()
    if not (both_are_numbers and text.isascii() and len(text) <= 40):
        raise Refused("malformed-frame", f"header heart-beat is {text[:40]!r}; it must be two numbers of ms")
    both = [
        max(min(ours_ms, FASTEST_BEAT_MS), int(theirs)) / 1000 if ours_ms and int(theirs) else 0.0
        for theirs in (sends, expects)
    ]
    return both[0], both[1]
