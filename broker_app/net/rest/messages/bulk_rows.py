"""The rows of a stage, as a request brings them, and what is stored of them.

    u32 length of the head | head (JSON) | n * u32 envelope of each row | n * u32 length of each body | bodies

All numbers are little endian. The head is {"rows": n, "envelopes": [{"destination": "/queue/a", …}, …]}: an
envelope has the members of an item of a batch, without its body. So rows that differ in their bodies alone
need one envelope, and no row is taken apart more than that."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
from msgspec import UNSET

from broker_app.base.refused import Refused
from broker_app.core.commands import Need
from broker_app.core.destination import QUEUE, TOPIC, Destination, parse
from broker_app.core.message import Envelope
from broker_app.features.bulk.part import (
    BULK_DEAD_LETTERS,
    REFUSED,
    PartHead,
    Rows,
    StoredEnvelope,
    dead_letter,
    encoded,
    numbers,
)
from broker_app.features.bulk.stage_store import Owner
from broker_app.net.http.limits import RestLimits
from broker_app.net.http.refusals import invalid, too_large
from broker_app.net.http.requests import decode
from broker_app.net.rest.messages.bulk_filter import FilteredRow
from broker_app.net.rest.messages.envelopes import Envelopes, Item
from broker_app.reflex.delivery_filter import FILTERED

MEDIA_TYPE = b"application/vnd.mom.rows"
#: refused rows that a reply lists
MAX_LISTED = 100
_WORD = 4
_NOT_ALLOWED = "not-allowed"
_NO_ROOM = Need(0, 0, 0)


class RowEnvelope(Item, forbid_unknown_fields=True, kw_only=True):
    """The metadata of rows to one destination; it has no body. Rows whose bodies were too large to be sent
    are refused: `body_bytes` is the size of such a body."""

    destination: str
    body_bytes: int | None = None


class RowsHead(msgspec.Struct, forbid_unknown_fields=True):
    """The head of a request."""

    rows: int
    envelopes: list[RowEnvelope]


class WantedEnvelope(NamedTuple):
    """An envelope of a request: its destination and envelope, or the refusal of both."""

    given: RowEnvelope
    destination: Destination | None
    envelope: Envelope | None
    refusal: Refused | None


class BulkTarget(NamedTuple):
    """A destination: the refusal of all rows to it, the bytes of the largest body that it takes, and the
    queue of its dead letters."""

    refusal: Refused | None
    largest: int
    dead_letters: str


class RefusedRow(NamedTuple):
    """A row that was refused, with its number in the request."""

    row: int
    destination: str
    refusal: Refused

    @property
    def facts(self) -> dict[str, object]:
        return {
            "row": self.row,
            "destination": self.destination,
            "code": self.refusal.code,
            "detail": self.refusal.detail,
        }


def parsed(body: bytes, limits: RestLimits) -> tuple[list[RowEnvelope], Rows]:
    """The envelopes and rows of a request. Raises Refused."""
    size = int.from_bytes(body[:_WORD], "little")
    if len(body) < _WORD + size:
        raise invalid("", f"the head has {size} bytes, the body {len(body)}")
    head = decode(body[_WORD : _WORD + size], RowsHead)
    if not 0 <= head.rows <= limits.max_stage_rows:
        raise too_large("rows", limits.max_stage_rows, head.rows)
    view = memoryview(body)[_WORD + size :]
    columns = _WORD * head.rows
    if len(view) < 2 * columns:
        raise invalid("/rows", f"there are {len(view)} bytes behind the head; {head.rows} rows need more")
    rows = Rows(numbers(view[:columns]), numbers(view[columns : 2 * columns]), view[2 * columns :])
    if sum(rows.sizes) != len(rows.bodies):
        raise invalid(
            "", f"the bodies have {len(rows.bodies)} bytes; their lengths add up to {sum(rows.sizes)}"
        )
    if head.rows and max(rows.indexes) >= len(head.envelopes):
        raise invalid("/envelopes", f"a row has envelope {max(rows.indexes)} of {len(head.envelopes)}")
    return head.envelopes, rows


def wanted(given: Sequence[RowEnvelope], envelopes: Envelopes) -> list[WantedEnvelope]:
    """The destination and envelope of each, or why there are none."""
    return [_wanted(one, envelopes) for one in given]


def _wanted(given: RowEnvelope, envelopes: Envelopes) -> WantedEnvelope:
    try:
        destination = parse(given.destination)
        if destination.kind not in (QUEUE, TOPIC):
            raise Refused(
                "bad-destination", f"rows are sent to queues and topics; {destination.address} is neither"
            )
        if given.body is not UNSET or given.body_base64 is not None:
            raise invalid("/envelopes", "an envelope has no body; the bodies of all rows follow the head")
        return WantedEnvelope(given, destination, envelopes.of_item(destination.address, given), None)
    except Refused as refusal:
        return WantedEnvelope(given, None, None, refusal)


class PartBuilder:
    """Makes the stored part of a request. Without `dead_letters`, any refused row refuses all of them."""

    def __init__(
        self,
        owner: Owner,
        targets: Mapping[Destination, BulkTarget],
        envelopes: Envelopes,
        *,
        dead_letters: bool,
        now_ms: int,
    ) -> None:
        self._owner = owner
        self._targets = targets
        self._envelopes = envelopes
        self._dead_letters = dead_letters
        self._now_ms = now_ms
        #: the first of them
        self.refused: list[RefusedRow] = []
        self.refused_rows = 0
        self._stored: list[StoredEnvelope] = []
        self._dead: dict[tuple[int, str], int] = {}
        self._changed: dict[Envelope, int] = {}

    def build(
        self, asked: Sequence[WantedEnvelope], rows: Rows, decided: Mapping[int, FilteredRow]
    ) -> list[bytes | memoryview]:
        """The content of the part; `decided` are rows that reflexes have seen, by number. Raises Refused."""
        self._stored = [StoredEnvelope.of(one.envelope or Envelope("")) for one in asked]
        largest = [self._largest(one) for one in asked]
        needs = [_NO_ROOM] * len(asked)
        indexes = array("I", rows.indexes)
        refused_codes: Counter[str] = Counter()
        for row, (index, size) in enumerate(zip(rows.indexes, rows.sizes, strict=True)):
            seen = decided.get(row)
            if size <= largest[index] and (seen is None or seen.refusal is None):
                needs[index] = needs[index].plus(Need(1, size, size))
                if seen is not None and seen.envelope is not asked[index].envelope:
                    indexes[row] = self._changed_index(seen.envelope)
                continue
            refusal = (
                seen.refusal if seen is not None and size <= largest[index] else None
            ) or self._refusal(asked[index], size, largest[index])
            refused_codes[refusal.code] += 1
            self._note(RefusedRow(row, asked[index].given.destination[:300], refusal))
            if self._dead_letters:
                indexes[row] = self._dead_index(index, asked[index], refusal)
        self._check(refused_codes, len(indexes))
        head = PartHead(
            *(self._owner.user, self._dead_letters, len(indexes), _by_address(asked, needs), self._stored),
            token=self._owner.token,
        )
        return encoded(head, Rows(indexes, rows.sizes, rows.bodies))

    def _largest(self, one: WantedEnvelope) -> int:
        """The bytes of the largest body of this envelope; -1 if all of its rows are refused."""
        if one.destination is None or one.given.body_bytes is not None:
            return -1
        if self._targets[one.destination].refusal is not None:
            return -1
        return self._targets[one.destination].largest

    def _refusal(self, one: WantedEnvelope, size: int, largest: int) -> Refused:
        if one.destination is None:
            assert one.refusal is not None
            return one.refusal
        refusal = self._targets[one.destination].refusal
        if refusal is not None:
            return refusal
        unsent = one.given.body_bytes
        if unsent is not None:
            detail = f"the body has {unsent} bytes, which is more than a part of a stage can contain"
            return Refused("too-large", detail, size=unsent)
        detail = f"the body has {size} bytes; {one.destination.address} takes at most {largest}"
        return Refused("too-large", detail, limit=largest, size=size)

    def _note(self, row: RefusedRow) -> None:
        self.refused_rows += 1
        if len(self.refused) < MAX_LISTED:
            self.refused.append(row)

    def _dead_index(self, index: int, one: WantedEnvelope, refusal: Refused) -> int:
        """The index of the envelope of a refused row as a dead letter."""
        key = index, refusal.detail
        if key not in self._dead:
            self._dead[key] = len(self._stored)
            self._stored.append(StoredEnvelope.of(self._dead_envelope(one, refusal), dead=True))
        return self._dead[key]

    def _changed_index(self, envelope: Envelope) -> int:
        """The index of an envelope whose headers a reflex has changed."""
        if envelope not in self._changed:
            self._changed[envelope] = len(self._stored)
            self._stored.append(StoredEnvelope.of(envelope))
        return self._changed[envelope]

    def _dead_envelope(self, one: WantedEnvelope, refusal: Refused) -> Envelope:
        address = BULK_DEAD_LETTERS
        if one.destination is not None and refusal.code != _NOT_ALLOWED:
            address = self._targets[one.destination].dead_letters
        try:
            origin = one.envelope or self._envelopes.of_item(BULK_DEAD_LETTERS, one.given)
        except Refused:  # its headers are what was wrong
            origin = Envelope(BULK_DEAD_LETTERS)
        reason = FILTERED if refusal.code == "filtered" else REFUSED
        destination = one.given.destination[:300]
        return dead_letter(origin, destination, address, refusal.detail, self._now_ms, reason)

    def _check(self, codes: Counter[str], rows: int) -> None:
        """Raise Refused when rows were refused that cannot become dead letters. A client that may send
        nothing cannot fill the queues of dead letters either."""
        if not codes or (self._dead_letters and codes[_NOT_ALLOWED] < rows):
            return
        first = self.refused[0]
        name = next(iter(codes)) if len(codes) == 1 else "invalid"
        errors = [{"pointer": f"/rows/{row.row}", **row.facts} for row in self.refused]
        raise Refused(
            name,
            f"{self.refused_rows} of {rows} rows were refused, and none is staged. Row {first.row} to "
            f"{first.destination}: {first.refusal.detail}",
            errors=errors,
        )


def _by_address(asked: Sequence[WantedEnvelope], needs: Sequence[Need]) -> dict[str, Need]:
    """The room that is needed at each destination."""
    found: dict[str, Need] = {}
    for one, need in zip(asked, needs, strict=True):
        if need.messages and one.destination is not None:
            address = one.destination.address
            found[address] = found.get(address, _NO_ROOM).plus(need)
    return found
