"""Arrival reflexes for rows of bulk publishing: they decide when rows are staged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from broker_app.base.refused import Refused
from broker_app.core.message import Envelope
from broker_app.features.bulk.part import Rows
from broker_app.reflex.reflexes import Reflexes

#: rows whose chains run at a time
_AT_ONCE: Final = 1_000


class FilteredRow(NamedTuple):
    """A row that reflexes have seen: refused, or with the envelope that it has now."""

    refusal: Refused | None
    envelope: Envelope


async def filtered(
    reflexes: Reflexes, envelopes: Sequence[Envelope | None], rows: Rows, user: str
) -> Mapping[int, FilteredRow]:
    """The rows that have a chain, by number. `envelopes` are those of the request, None for invalid ones."""
    concerned = [one is not None and reflexes.filters(one.address) for one in envelopes]
    if not any(concerned):
        return {}
    found: dict[int, FilteredRow] = {}
    numbers: list[int] = []
    messages: list[tuple[Envelope, bytes]] = []
    start = 0
    for number, (index, size) in enumerate(zip(rows.indexes, rows.sizes, strict=True)):
        envelope = envelopes[index]
        if envelope is not None and concerned[index]:
            numbers.append(number)
            messages.append((envelope, bytes(rows.bodies[start : start + size])))
            if len(messages) == _AT_ONCE:
                await _decide(reflexes, numbers, messages, user, found)
                numbers, messages = [], []
        start += size
    await _decide(reflexes, numbers, messages, user, found)
    return found


async def _decide(
    reflexes: Reflexes,
    numbers: Sequence[int],
    messages: Sequence[tuple[Envelope, bytes]],
    user: str,
    found: dict[int, FilteredRow],
) -> None:
    """Add the rows that have a chain to `found`."""
    for index, (outcome, envelope) in (await reflexes.filter(messages, user)).items():
        refusal = None
        if outcome.further:
            step = outcome.further[0].step
            refusal = _refusal(
                step.declaration.name, "it publishes further messages, which bulk publishing has not"
            )
        elif not outcome.accepted:
            refusal = _refusal(outcome.reflex, outcome.reason)
        found[numbers[index]] = FilteredRow(refusal, envelope)


def _refusal(reflex: str, reason: str) -> Refused:
    detail = f"the row was refused by reflex {reflex}: {reason}"
    return Refused("filtered", detail, reflex=reflex, reason=reason)
