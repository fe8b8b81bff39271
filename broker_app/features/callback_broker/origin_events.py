"""Events of an origin, checked: what no broker sends is refused where it comes in."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec

from broker_app.net.json import events

_Count = Annotated[int, msgspec.Meta(ge=0)]


class Original(msgspec.Struct, kw_only=True):
    """A message of the origin, as `events.ExactMessage` has it: Base64 is decoded."""

    seq: int
    id: str
    receipt: str
    destination: str
    time_ms: _Count
    attempts: _Count
    priority: Annotated[int, msgspec.Meta(ge=0, le=9)]
    persistent: bool
    expires_ms: _Count
    block_base64: bytes
    body_base64: bytes


class _Received(msgspec.Struct, tag_field="op", tag="received"):
    """The answer to an exact `receive`."""

    items: list[Original]
    missing: list[events.Missing]


_Answer = type[events.Registered | events.Pending | _Received | events.Done]
#: the answers to operations, if not `done`
_ANSWERS: Final[dict[str, _Answer]] = {
    "register": events.Registered,
    "pending": events.Pending,
    "receive": _Received,
}


def decode(data: str | bytes) -> dict[str, object]:
    """One event, with a notification checked. Raises ValueError for what is none."""
    try:
        event = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"the origin sent what is not JSON: {error}") from None
    if not isinstance(event, dict):
        raise ValueError("the origin sent JSON that is not an object")
    if event.get("op") == "arrived":
        _check(event, events.Arrived)
    return event


def answer(asked: dict[str, Any], event: dict[str, Any]) -> dict[str, Any]:
    """The answer to an operation, checked; the messages of `receive` are each an `Original`. Raises
    ValueError."""
    operation = asked["op"]
    kind = _ANSWERS.get(operation, events.Done)
    if event.get("op") != kind.__struct_config__.tag:
        raise ValueError(f"it answered {operation} with {str(event.get('op'))[:50]!r}")
    found = _check(event, kind)
    if isinstance(found, events.Pending) and found.more and found.seq <= asked["after"]:
        raise ValueError(f"its list of what waits does not go on behind {asked['after']}")
    return {**event, "items": found.items} if isinstance(found, _Received) else event


def _check(event: dict[str, object], kind: type[msgspec.Struct]) -> msgspec.Struct:
    op = event["op"]
    try:
        found = msgspec.convert(event, kind)
    except msgspec.ValidationError as error:
        raise ValueError(f"the origin sent an invalid event {op!r}: {error}") from None
    if isinstance(found, events.Arrived | events.Pending) and len(found.seqs) != len(found.ids):
        raise ValueError(
            f"the origin sent an invalid event {op!r}: it has {len(found.seqs)} positions and "
            f"{len(found.ids)} ids"
        )
    return found
