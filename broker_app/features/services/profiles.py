"""Profiles: a message is addressed to all services that match, now and later.

Such a message is a seed. It is stored in a queue of the broker, by any user and any transport;
`services.seed_messages` makes the copies.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from broker_app.base.refused import Refused
from broker_app.core import header_block
from broker_app.core.destination import MAX_NAME, QUEUE, Destination
from broker_app.core.message import DeliveryOptions, Envelope
from broker_app.core.selectors import compiler
from broker_app.net.policy import principal
from broker_app.net.policy.principal import Principal

PREFIX: Final = "/profile/"
#: where seeds wait, and where each copy is noted
SEEDS: Final = Destination(QUEUE, "$seeds")
COPIES: Final = Destination(QUEUE, "$seed-copies")
#: header with the number of copies, and its bounds
MAX_COPIES: Final = "max-copies"
DEFAULT_COPIES, MOST_COPIES = 100, 10_000
#: header of a copy with the id of its seed
SEED_ID: Final = "seed-id"
_CRITERIA, _PRINCIPAL = "mom-seed-criteria", "mom-seed-principal"
#: the name of the sender, which seeds of earlier versions have instead of the principal
_SENDER = "mom-seed-sender"
_OWN: Final = (_CRITERIA, _PRINCIPAL, _SENDER, MAX_COPIES, SEED_ID)


class SeedTerms(NamedTuple):
    """The terms of a seed: a condition on the properties of services, the most copies, and its sender."""

    criteria: str
    max_copies: int
    sender: Principal


def criteria_of(address: str | None) -> str | None:
    """The criteria in the address of a profile, None for another address. Raises Refused."""
    if address is None or not address.startswith(PREFIX):
        return None
    criteria = address.removeprefix(PREFIX)
    if len(criteria) > MAX_NAME:
        raise Refused("bad-destination", f"a profile has at most {MAX_NAME} characters")
    compiler.compile(criteria)
    return criteria


def seed(envelope: Envelope, criteria: str, sender: Principal, max_copies: int | None = None) -> Envelope:
    """The envelope under which a message to a profile is stored; `max_copies` is that of its header unless
    it is given. Raises Refused."""
    given = header_block.headers(envelope.block)
    copies = str(max_copies or given.get(MAX_COPIES, DEFAULT_COPIES))
    if not (copies.isascii() and copies.isdigit()) or not 1 <= int(copies[:9]) <= MOST_COPIES:
        raise Refused(
            "invalid", f"header {MAX_COPIES} is {copies[:40]!r}; it must be from 1 to {MOST_COPIES}"
        )
    options = envelope.options
    if options is not None and (options.is_delayed or options.dedup_id):
        raise Refused("unsupported", "a message to a profile can be neither delayed nor deduplicated")
    terms = {_CRITERIA: criteria, _PRINCIPAL: sender.text, MAX_COPIES: copies}
    return _with(envelope, SEEDS, terms)


def terms_of(block: bytes) -> SeedTerms:
    """The terms of a seed that is stored."""
    found = header_block.headers(block)
    stored = found.get(_PRINCIPAL)
    sender = principal.unknown(found[_SENDER]) if stored is None else principal.restored(stored)
    return SeedTerms(found[_CRITERIA], int(found[MAX_COPIES]), sender)


def copy(envelope: Envelope, service: str, seed_id: str, expires_ms: int) -> Envelope:
    """The envelope of the copy for a service."""
    copied = _with(envelope, Destination(QUEUE, service), {SEED_ID: seed_id})
    return copied.with_expiry(expires_ms)


def _with(envelope: Envelope, destination: Destination, lines: dict[str, str]) -> Envelope:
    """The same message for another destination, with other lines of its seed."""
    own = tuple(f"{name}:".encode() for name in _OWN)
    kept = [line for line in envelope.block.splitlines(keepends=True) if not line.startswith(own)]
    added = [f"{name}:{header_block.escape(value)}\n".encode() for name, value in lines.items()]
    group = envelope.options.group if envelope.options is not None else ""
    return Envelope(
        destination.address,
        b"".join((*kept, *added)),
        persistent=envelope.persistent,
        priority=envelope.priority,
        ttl_ms=envelope.ttl_ms,
        expires_ms=envelope.expires_ms,
        options=DeliveryOptions(group=group) if group else None,
    )
