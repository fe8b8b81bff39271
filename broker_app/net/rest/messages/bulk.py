"""Bulk publishing, for programs that write whole batches, such as Spark: stage, then commit or abort.

The rows of a batch are staged by any number of clients, and committed by one: a producer numbers its batches,
and each is published once, whatever is sent again."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from heapq import nlargest

import msgspec

from broker_app.base.audit_actions import BULK_PRODUCER_DELETED
from broker_app.base.refused import Refused
from broker_app.base.shares import Shares
from broker_app.core.destination import DEAD_SUFFIX, QUEUE, Destination, parse
from broker_app.core.publishing.bulk_producer import BulkProducer
from broker_app.core.publishing.destination_limits import largest_body
from broker_app.core.storage import dead_letters
from broker_app.features.bulk.batch_commits import BatchCommits
from broker_app.features.bulk.part import BULK_DEAD_LETTERS, PartHead
from broker_app.features.bulk.stage_store import MAX_PARTS_OF_STAGE, Owner, WantedStage
from broker_app.net.http.limits import RestLimits
from broker_app.net.http.refusals import invalid, too_large
from broker_app.net.http.replies import NO_CONTENT, Reply, json_reply
from broker_app.net.http.requests import Request, whole_number
from broker_app.net.http.routing import Handlers
from broker_app.net.rest.messages.bulk_filter import filtered
from broker_app.net.rest.messages.bulk_rows import (
    MEDIA_TYPE,
    BulkTarget,
    PartBuilder,
    WantedEnvelope,
    parsed,
    wanted,
)
from broker_app.net.rest.messages.envelopes import Envelopes
from broker_app.net.rest.messages.message_json import rfc3339
from broker_app.reflex.reflexes import Reflexes
from broker_app.rules.event import SEND

FAIL, DEAD_LETTER = ON_ERROR = ("fail", "dead_letter")
#: stages of one commit
MAX_STAGES = 10_000
#: parts whose rows are in memory at a time
MAX_AT_ONCE = 16
#: destinations that are checked before other tasks run
_RUN = 500
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class CommitRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The body of bulk/commit."""

    producer: str
    batch: int
    stages: list[WantedStage]


class AbortRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The body of bulk/abort."""

    stages: list[str]


class BulkEndpoints:
    """Endpoints `bulk/…`."""

    def __init__(self, commits: BatchCommits, limits: RestLimits, reflexes: Reflexes) -> None:
        self._commits = commits
        self._reflexes = reflexes
        self._broker = commits.engine.broker
        self._limits = limits
        self._envelopes = Envelopes(limits)
        self._at_once = Shares(lambda: MAX_AT_ONCE, "parts of stages whose rows are read")

    def handlers(self) -> Handlers:
        """The endpoints by operation."""
        return {
            "stage_rows": self.stage,
            "commit_rows": self.commit,
            "abort_rows": self.abort,
            "list_bulk_producers": self.producers,
            "delete_bulk_producer": self.forget,
        }

    async def stage(self, request: Request) -> Reply:
        """POST bulk/stage"""
        query = request.query(("id", "seq", "on_error"))
        stage = _checked_id(query.get("id", ""), "query/id")
        number = whole_number(query, "seq", 0, 0, MAX_PARTS_OF_STAGE - 1)
        on_error = query.get("on_error", FAIL)
        if on_error not in ON_ERROR:
            raise invalid("query/on_error", f"must be one of {', '.join(ON_ERROR)}", on_error)
        if request.media_type != MEDIA_TYPE:
            raise Refused("unsupported-type", f"send the rows as {MEDIA_TYPE.decode()}")
        self._broker.resource_alarms.check_alarm(adds=True)
        # Its place is taken when all of it is here: a slow upload takes none from others.
        body = await request.body(self._limits.max_stage_bytes)
        with self._at_once.taken(request.user, admin=request.is_admin):
            return await self._stage(request, stage, number, body, dead_letters=on_error == DEAD_LETTER)

    async def _stage(
        self, request: Request, stage: str, number: int, body: bytes, *, dead_letters: bool
    ) -> Reply:
        given, rows = await asyncio.to_thread(parsed, body, self._limits)
        asked = await asyncio.to_thread(wanted, given, self._envelopes)
        targets = await self._targets(request, asked)
        user, now_ms = request.user, time.time_ns() // 1_000_000
        owner = _owner(request)
        builder = PartBuilder(owner, targets, self._envelopes, dead_letters=dead_letters, now_ms=now_ms)
        decided = await filtered(self._reflexes, [one.envelope for one in asked], rows, user)
        pieces = await asyncio.to_thread(builder.build, asked, rows, decided)
        stages, written, size = self._commits.stages, -1, 0
        stages.begin_part(stage, number, owner, sum(map(len, pieces)), admin=request.is_admin)
        try:
            size = await asyncio.to_thread(stages.write_part, stage, number, pieces)
            written = len(rows.sizes)
        finally:
            stages.end_part(stage, number, written, size)
        refused = [row.facts for row in builder.refused]
        return json_reply({"rows": written, "dead_letters": builder.refused_rows, "refused": refused})

    async def _targets(
        self, request: Request, asked: Iterable[WantedEnvelope]
    ) -> dict[Destination, BulkTarget]:
        """The destinations, with what they take from this client."""
        found: dict[Destination, BulkTarget] = {}
        for at, destination in enumerate(
            {one.destination for one in asked if one.destination is not None}, 1
        ):
            found[destination] = self._target(request, destination)
            if at % _RUN == 0:
                await asyncio.sleep(0)
        return found

    def _target(self, request: Request, destination: Destination) -> BulkTarget:
        address = destination.address
        policy = self._broker.turn.policies.of(address)
        limits = [most for most in (largest_body(policy), self._limits.max_body_bytes) if most]
        dead = BULK_DEAD_LETTERS
        if destination.kind == QUEUE and policy.use_dead_letters and not address.endswith(DEAD_SUFFIX):
            dead = dead_letters.address_of(address, policy)
        return BulkTarget(self._refusal(request, destination), min(limits), dead)

    def _refusal(self, request: Request, destination: Destination) -> Refused | None:
        """The refusal of all rows to a destination, None if there is none. A pause ends, and is checked at
        the commit."""
        try:
            request.access.check(request.client, SEND, destination)
            self._broker.destinations.check_sendable(destination.address)
        except Refused as refused:
            return None if refused.code == "paused" else refused
        return None

    async def commit(self, request: Request) -> Reply:
        """POST bulk/commit"""
        request.query()
        body = await request.json(CommitRequest)
        _check_stages([stage.id for stage in body.stages])
        result = await self._commits.commit(
            *(body.producer, body.batch, body.stages, _owner(request), partial(self._permit, request)),
            admin=request.is_admin,
        )
        return json_reply({"published": result.published, "duplicate": result.duplicate})

    @staticmethod
    def _permit(request: Request, heads: Sequence[PartHead]) -> Mapping[str, str]:
        """The addresses that the client may not send to any more; Refused unless their rows may become dead
        letters."""
        refused: dict[str, str] = {}
        permitted: set[str] = set()
        for head in heads:
            for address in head.needs.keys() - permitted:
                refusal = request.access.refusal(request.client, SEND, parse(address))
                if refusal is None:
                    permitted.add(address)
                elif head.dead_letters:
                    refused[address] = refusal.detail
                else:
                    raise refusal
        if refused and not permitted:
            raise Refused("not-allowed", next(iter(refused.values())))
        return refused

    async def abort(self, request: Request) -> Reply:
        """POST bulk/abort"""
        request.query()
        body = await request.json(AbortRequest)
        _check_stages(body.stages)
        await self._commits.abort(body.stages, _owner(request))
        return NO_CONTENT

    # ------------------------------------------------------------------ producers

    async def producers(self, request: Request) -> Reply:
        """GET bulk/producers"""
        limit = whole_number(request.query(("limit",)), "limit", 50, 1, self._limits.max_page)
        access, identity = request.access, request.client.identity
        everyone = request.is_admin
        found = [
            one
            for one in await self._commits.producers()
            if everyone or access.has_all_rights_of(identity, one.owner)
        ]
        newest = nlargest(limit, found, key=lambda one: one.time_ms)
        return json_reply({"items": [_facts(one) for one in newest], "total": len(found)})

    async def forget(self, request: Request) -> Reply:
        """DELETE bulk/producers/{name}"""
        request.query()
        known = next((one for one in await self._commits.producers() if one.name == request.name), None)
        own = known is not None and request.access.has_all_rights_of(request.client.identity, known.owner)
        if not own and not request.is_admin:
            detail = "only administrators can delete the producers of other users"
            raise Refused("not-allowed", detail, right="administer")
        await self._commits.forget(request.name)
        request.audit(BULK_PRODUCER_DELETED, request.name)
        return NO_CONTENT


def _owner(request: Request) -> Owner:
    identity = request.client.identity
    return Owner(identity.user, request.access.narrow_token(identity))


def _facts(producer: BulkProducer) -> dict[str, object]:
    return {
        "name": producer.name,
        "user": producer.owner,
        "last_batch": producer.next_batch - 1 if producer.next_batch else None,
        "rows_of_next": producer.rows,
        "time": rfc3339(producer.time_ms).decode(),
    }


def _check_stages(ids: Sequence[str]) -> None:
    """Refused unless these are ids of different stages."""
    if len(ids) > MAX_STAGES:
        raise too_large("stages", MAX_STAGES, len(ids))
    for at, stage in enumerate(ids):
        _checked_id(stage, f"/stages/{at}")
    if len(set(ids)) < len(ids):
        raise invalid("/stages", "names a stage twice")


def _checked_id(text: str, pointer: str) -> str:
    if not _ID.fullmatch(text):
        raise invalid(
            pointer, "must be a UUID in lower case, such as 1b4e28ba-2fa1-41d2-883f-0016d3cca427", text
        )
    return text
