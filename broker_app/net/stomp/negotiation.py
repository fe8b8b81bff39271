"""What a client and the broker agree on at CONNECT: the version of STOMP, and heart-beats."""

from __future__ import annotations

from broker_app.core.errors import Refused

VERSIONS = ("1.2", "1.1", "1.0")
#: heart-beats are as fast as the client asks for, but for this
FASTEST_BEAT_MS = 250


class UnsupportedVersion(Refused):
    """The client speaks none of `VERSIONS`; its ERROR says which there are."""

    def __init__(self, detail: str) -> None:
        super().__init__("unsupported-version", detail)


def version(accepted: str) -> str:
    """The best version in the `accept-version` of a CONNECT."""
    offered = {version.strip() for version in accepted.split(",")}
    for version in VERSIONS:
        if version in offered:
            return version
    raise UnsupportedVersion(f"the versions {accepted[:80]!r} are not spoken here; 1.0, 1.1 and 1.2 are")


def heart_beats(text: str, ours_ms: int) -> tuple[float, float]:
    """Seconds between beats (from the client, to the client), 0 for none: what its `heart-beat` header says,
    down to the fastest. `ours_ms` is what the broker offers; 0 is none, and a faster one is the fastest."""
    can_send, _, wants = text.partition(",")
    both_are_numbers = can_send.strip().isdigit() and wants.strip().isdigit()
    if not (both_are_numbers and text.isascii() and len(text) <= 40):
        raise Refused("malformed-frame", f"header heart-beat is {text[:40]!r}; it must be two numbers of ms")
    both = [
        max(min(ours_ms, FASTEST_BEAT_MS), int(theirs)) / 1000 if ours_ms and int(theirs) else 0.0
        for theirs in (can_send, wants)
    ]
    return both[0], both[1]
