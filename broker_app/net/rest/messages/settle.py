"""Settling: acknowledging, returning and extending what was received, by receipt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import msgspec

from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core.reasons import REJECTED
from broker_app.engine.client import EngineClient, PendingReply
from broker_app.net.http.limits import RestLimits
from broker_app.net.http.refusals import body_of, invalid, name_of, too_large
from broker_app.net.http.replies import NO_CONTENT, Reply, json_reply
from broker_app.net.http.requests import Request, within
from broker_app.net.stomp import scheduling_headers
from broker_app.rules.event import RECEIVE

_MAX_REASON = 1_000


class ExtendRequest(msgspec.Struct, forbid_unknown_fields=True):
    extend_s: float


class NackRequest(msgspec.Struct, forbid_unknown_fields=True):
    delay_s: float = 0.0
    reason: str = ""
    dead: bool = False


class Return(Protocol):
    """The way in which a message is to be returned."""

    delay_s: float
    reason: str
    dead: bool


def dead_reason_of(body: Return, pointer: str) -> tuple[str, int]:
    """The reason of the dead letter (empty: none) and the delay in ms, when both are within bounds."""
    delay_s = within(f"{pointer}/delay_s", body.delay_s, 0, scheduling_headers.MAX_DELAY_S)
    if len(body.reason) > _MAX_REASON:
        raise invalid(
            f"{pointer}/reason", f"has {len(body.reason)} characters; at most {_MAX_REASON} are taken"
        )
    if "\0" in body.reason:
        raise invalid(f"{pointer}/reason", "contains NUL, which is not allowed in a header")
    return REJECTED if body.dead else "", round(delay_s * 1000)


class Nack(NackRequest, forbid_unknown_fields=True, kw_only=True):
    receipt: str


class Extension(msgspec.Struct, forbid_unknown_fields=True):
    receipt: str
    extend_s: float


class SettleRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The body of leases/settle."""

    ack: list[str] = []
    nack: list[Nack] = []
    extend: list[Extension] = []


class _Started(NamedTuple):
    """A command on its way: `ends` when its deliveries are no longer unsettled after it."""

    pending_reply: PendingReply
    tags: list[int]
    ends: bool


#: makes the command that settles deliveries, given their tags and who waits for the answer
_MakeCommand = Callable[[Sequence[int], PendingReply], c.Command]


class Settler:
    """Endpoints `leases/…`."""

    def __init__(self, engine_client: EngineClient, limits: RestLimits) -> None:
        self._engine_client = engine_client
        self._limits = limits

    async def acknowledge(self, request: Request) -> Reply:
        """DELETE leases/{receipt}"""
        request.query()
        await self._one(request, request.name, self._ack)
        return NO_CONTENT

    async def extend(self, request: Request) -> Reply:
        """PATCH leases/{receipt}"""
        request.query()
        body = await request.json(ExtendRequest)
        await self._one(request, request.name, self._extend(body.extend_s, "/extend_s"))
        return NO_CONTENT

    async def nack(self, request: Request) -> Reply:
        """POST leases/{receipt}/nack"""
        request.query()
        body = await request.json(NackRequest, required=False)
        await self._one(request, request.name, self._nack(body, ""))
        return NO_CONTENT

    async def settle(self, request: Request) -> Reply:
        """POST leases/settle: many at once, each with its own result."""
        request.query()
        body = await request.json(SettleRequest)
        count = len(body.ack) + len(body.nack) + len(body.extend)
        if count > self._limits.max_receive:
            raise too_large("receipts", self._limits.max_receive, count)
        # Everything is checked before anything is done.
        nacks = [(nack.receipt, self._nack(nack, f"/nack/{i}")) for i, nack in enumerate(body.nack)]
        extensions = [
            (extension.receipt, self._extend(extension.extend_s, f"/extend/{i}/extend_s"))
            for i, extension in enumerate(body.extend)
        ]
        started = [
            self._start(request, receipt, make_command) for receipt, make_command in (*nacks, *extensions)
        ]
        acked = await self._together(request, body.ack)
        results = [await self._result(one) for one in started]
        return json_reply({"ack": acked, "nack": results[: len(nacks)], "extend": results[len(nacks) :]})

    # ------------------------------------------------------------------ operations

    def _ack(self, tags: Sequence[int], pending_reply: PendingReply) -> c.Command:
        return c.Settle(self._engine_client.peer, tags, receipt=pending_reply)

    def _extend(self, seconds: float, pointer: str) -> _MakeCommand:
        lease_ms = round(within(pointer, seconds, 1, self._limits.max_lease_s) * 1000)
        return lambda tags, pending_reply: c.Extend(self._engine_client.peer, tags, lease_ms, pending_reply)

    def _nack(self, body: NackRequest, pointer: str) -> _MakeCommand:
        dead_reason, delay_ms = dead_reason_of(body, pointer)
        return lambda tags, pending_reply: c.Return(
            self._engine_client.peer,
            tags,
            dead_reason=dead_reason,
            detail=body.reason,
            receipt=pending_reply,
            delay_ms=delay_ms,
        )

    # ------------------------------------------------------------------ carrying out

    async def _one(self, request: Request, receipt: str, make_command: _MakeCommand) -> None:
        await self._carry_out([self._tag(request, receipt)], make_command)

    def _tag(self, request: Request, receipt: str) -> int:
        """The delivery behind a receipt, if the client may still receive from there. Raises Refused."""
        tag = self._engine_client.leases.tag_of(receipt, request.user)
        request.permitted(RECEIVE, self._engine_client.leases.source_of(tag))
        return tag

    async def _carry_out(self, tags: list[int], make_command: _MakeCommand) -> None:
        await self._finish(self._submit(tags, make_command))

    def _submit(self, tags: list[int], make_command: _MakeCommand) -> _Started:
        pending_reply = self._engine_client.pending_reply()
        command = make_command(tags, pending_reply)
        self._engine_client.submit(command, 100 * len(tags))
        return _Started(pending_reply, tags, ends=not isinstance(command, c.Extend))

    async def _finish(self, started: _Started) -> None:
        engine_client = self._engine_client
        try:
            await engine_client.answer(started.pending_reply)
        except Refused as refusal:
            # Between the check and the operation a lease may have ended.
            if name_of(refusal) == "lease-lost":
                raise engine_client.leases.lost(started.tags[0]) from None
            raise
        if started.ends:
            engine_client.leases.remember_settled(started.tags)

    # ------------------------------------------------------------------ many

    def _start(
        self, request: Request, receipt: str, make_command: _MakeCommand
    ) -> tuple[str, _Started | Refused]:
        try:
            return receipt, self._submit([self._tag(request, receipt)], make_command)
        except Refused as refusal:
            return receipt, refusal

    async def _result(self, one: tuple[str, _Started | Refused]) -> dict[str, object]:
        receipt, started = one
        if isinstance(started, Refused):
            return _failed(receipt, started)
        try:
            await self._finish(started)
        except Refused as refusal:
            return _failed(receipt, refusal)
        return {"receipt": receipt}

    async def _together(self, request: Request, receipts: list[str]) -> list[dict[str, object]]:
        """Acknowledge in one command what can be; one by one when a lease ends just then."""
        refused: dict[str, Refused] = {}
        tags: dict[str, int] = {}
        for receipt in receipts:
            try:
                tags[receipt] = self._tag(request, receipt)
            except Refused as refusal:
                refused[receipt] = refusal
        try:
            if tags:
                await self._carry_out(list(tags.values()), self._ack)
        except Refused:
            started = [self._start(request, receipt, self._ack) for receipt in receipts]
            return [await self._result(one) for one in started]
        return [
            _failed(receipt, refused[receipt]) if receipt in refused else {"receipt": receipt}
            for receipt in receipts
        ]


def _failed(receipt: str, refusal: Refused) -> dict[str, object]:
    return {"receipt": receipt, "error": body_of(refusal)}
