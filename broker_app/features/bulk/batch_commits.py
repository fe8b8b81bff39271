"""Commits of staged rows: each batch of a producer is published once, all of its rows or none.

A batch that fits is published in one batch of the journal, together with its number. A larger one is
published part by part, and how many of its rows are out is recorded with each. Before the first part its plan
is stored: so it is completed whatever happens, by the process itself or by the next one, always from the same
files and in the same order. A broker whose journal others take over publishes only what fits, because they
have not its files."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from broker_app.base.internal_errors import internal_errors
from broker_app.base.refused import Refused
from broker_app.base.shares import Shares
from broker_app.core import commands as c
from broker_app.core.publishing.bulk_producer import BulkProducer, address_of, check_batch
from broker_app.engine import Engine
from broker_app.engine.client import EngineClient
from broker_app.features.bulk.part import PartDamaged, PartHead, read_entries
from broker_app.features.bulk.stage_store import CommitPlan, Owner, PartName, StageStore, WantedStage, remove

log = logging.getLogger(__name__)

_Content = TypeVar("_Content")

MIB = 1024 * 1024
#: commits that wait for their turn
MAX_WAITING = 64
#: seconds between attempts to complete batches, and searches for stages that are too old
UPKEEP_S = 10.0


class Fits(NamedTuple):
    """The rows and bytes that are published in one batch of the journal."""

    rows: int
    bytes: int


#: with a journal of its own: others wait for at most so much
OWN_JOURNAL = Fits(20_000, 16 * MIB)
#: with a journal that others take over, which is all that can be committed at once
SHARED_JOURNAL = Fits(100_000, 64 * MIB)

#: returns the addresses whose rows have to become dead letters, with the reason; raises Refused
Permit = Callable[[Sequence[PartHead]], Mapping[str, str]]


class Committed(NamedTuple):
    """The result of a commit: the rows that it has published, and whether they had been published before."""

    published: int
    duplicate: bool = False


class BatchCommits:
    """Publishes staged batches, one at a time. Made within the running loop; `start` once the engine has
    recovered, `stop` before the engine stops."""

    def __init__(self, engine: Engine, stages: StageStore, *, shared: bool) -> None:
        self.engine = engine
        self.stages = stages
        self._requests = EngineClient(engine, "bulk")
        self._shared = shared
        self._fits = SHARED_JOURNAL if shared else OWN_JOURNAL
        self._lock = asyncio.Lock()
        self._plans: dict[str, CommitPlan] = {}
        #: why batches cannot be completed yet, as it was logged
        self._logged: dict[str, str] = {}
        self._tasks: set[asyncio.Task[Committed]] = set()
        self._waiting = Shares(lambda: MAX_WAITING, "commits that wait for their turn")
        self._upkeep: asyncio.Task[None] | None = None
        self._stopping = False

    async def start(self) -> None:
        """Find the stages of a former process, and complete the batches that it had begun to publish."""
        plans = await asyncio.to_thread(self.stages.load)
        self._plans = {plan.producer: plan for plan in plans}
        self._upkeep = asyncio.create_task(self._keep())

    async def stop(self) -> None:
        """Stop after the present part; the next start continues."""
        self._stopping = True
        if self._upkeep is not None:
            self._upkeep.cancel()
            await asyncio.gather(self._upkeep, return_exceptions=True)
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def engine_ended(self, error: BaseException) -> None:
        """Fail all commits: the engine has ended."""
        self._requests.engine_ended(error)

    async def _keep(self) -> None:
        """Complete batches, and remove stages that are too old, for ever."""
        while True:
            try:
                await self._complete_all()
                await asyncio.to_thread(remove, self.stages.expired())
            except Exception as error:
                internal_errors.note("stages of bulk publishing", error)
            await asyncio.sleep(UPKEEP_S)

    async def _complete_all(self) -> None:
        """Try to complete the batches that were begun."""
        for producer in list(self._plans):
            try:
                async with self._lock:
                    await self._complete(producer)
            except Refused as refused:
                if refused.detail != self._logged.get(producer):
                    log.warning("the batch of %s will be completed later: %s", producer, refused.detail)
                self._logged[producer] = refused.detail

    # ------------------------------------------------------------------ what clients ask

    async def commit(
        self,
        producer: str,
        batch: int,
        wanted: Sequence[WantedStage],
        owner: Owner,
        permit: Permit,
        *,
        admin: bool = False,
    ) -> Committed:
        """Publish the rows of stages as one batch of a producer, unless it was published before. It goes on
        when its caller is cancelled. Raises Refused."""
        check_batch(producer, batch)
        if self._stopping:
            raise _stopping()
        self._waiting.take(owner.user, admin=admin)
        task = asyncio.create_task(self._commit(producer, batch, wanted, owner, permit))
        self._tasks.add(task)
        task.add_done_callback(partial(self._ended, owner.user))
        return await asyncio.shield(task)

    def _ended(self, user: str, task: asyncio.Task[Committed]) -> None:
        self._tasks.discard(task)
        self._waiting.add(user, -1)
        if not task.cancelled():
            task.exception()  # its caller may be gone

    async def abort(self, stages: Iterable[str], owner: Owner) -> None:
        """Remove stages of an owner; those that are being committed stay."""
        await asyncio.to_thread(remove, self.stages.forget(stages, owner))

    async def producers(self) -> list[BulkProducer]:
        """All producers whose last batch is known."""
        return await self._requests.inspect(lambda: list(self.engine.broker.bulk.producers.values()))

    async def forget(self, producer: str) -> None:
        """Forget a producer, and what remains of a batch that was begun. Raises Refused."""
        async with self._lock:
            plan = self._plans.get(producer)
            if plan is not None:
                await self._end_plan(plan)
            await self._requests.ask(c.DeleteBulkProducer(self._requests.peer, producer), _nothing)

    # ------------------------------------------------------------------ committing

    async def _commit(
        self, producer: str, batch: int, wanted: Sequence[WantedStage], owner: Owner, permit: Permit
    ) -> Committed:
        user = owner.user
        async with self._lock:
            if self._stopping:
                raise _stopping()
            await self._complete(producer)
            known = await self._state(producer)
            if known is not None and known.owner == user and batch < known.next_batch:
                await self.abort([one.id for one in wanted], owner)
                return Committed(0, duplicate=True)
            parts, size = self.stages.hold(wanted, owner)
            plan = CommitPlan(producer, user, batch, [part for part in parts if part.rows], {})
            try:
                heads = await self._heads(plan)
                plan = CommitPlan(producer, user, batch, plan.parts, dict(permit(heads)))
                await self._publish(plan, size, _needs(heads, plan.rerouted))
            except BaseException:
                if producer not in self._plans:
                    self.stages.release(one.id for one in wanted)
                raise
            await self._drop(one.id for one in wanted)
            return Committed(sum(part.rows for part in plan.parts))

    async def _publish(self, plan: CommitPlan, size: int, needs: Mapping[str, c.Need]) -> None:
        """Publish a batch of parts of `size` bytes."""
        rows = sum(part.rows for part in plan.parts)
        if rows <= self._fits.rows and size <= self._fits.bytes:
            entries = [entry for part in plan.parts for entry in await self._entries(part, plan)]
            await self._ask(plan, entries, needs)
            return
        if self._shared:
            raise Refused(
                "too-large",
                f"the batch has {rows} rows and {size} bytes; a broker that shares its journal commits at "
                f"most {self._fits.rows} rows and {self._fits.bytes} bytes at once. Read less in each batch "
                "(maxRowsPerTrigger)",
            )
        await asyncio.to_thread(self.stages.save_plan, plan)
        self._plans[plan.producer] = plan
        await self._publish_parts(plan, needs, 0)
        await self._end_plan(plan)

    async def _publish_parts(self, plan: CommitPlan, needs: Mapping[str, c.Need], published: int) -> None:
        """Publish the parts of a plan behind the first `published` rows."""
        rows = 0
        for part in plan.parts:
            if rows >= published:
                if self._stopping:
                    raise _stopping()
                entries = await self._entries(part, plan)
                await self._requests.backpressure.wait()
                try:
                    await self._ask(plan, entries, {} if rows else needs, rows, last=part is plan.parts[-1])
                except Refused as refused:
                    if not rows and refused.code not in ("not-active", "store-unavailable"):
                        await self._end_plan(plan, drop=False)
                    raise
            rows += part.rows

    async def _ask(
        self,
        plan: CommitPlan,
        entries: Sequence[c.Row],
        needs: Mapping[str, c.Need],
        rows_before: int = 0,
        *,
        last: bool = True,
    ) -> None:
        command = c.PublishBulk(
            *(self._requests.peer, plan.producer, plan.owner, plan.batch),
            *(entries, needs, rows_before, last),
        )
        await self._requests.ask(command, _nothing)

    async def _complete(self, producer: str) -> None:
        """Publish what remains of a batch that was begun, if there is one. Raises Refused if that has to
        wait."""
        plan = self._plans.get(producer)
        if plan is None:
            return
        known = await self._state(producer)
        published = 0
        if known is not None and plan.batch <= known.next_batch:
            published = known.rows if plan.batch == known.next_batch else -1
        if published >= 0:
            heads = await self._heads(plan)
            await self._publish_parts(plan, _needs(heads, plan.rerouted), published)
        await self._end_plan(plan)

    async def _end_plan(self, plan: CommitPlan, *, drop: bool = True) -> None:
        """Forget a plan, and remove its stages, unless they may be committed again."""
        await asyncio.to_thread(self.stages.remove_plan, plan.producer)
        self._plans.pop(plan.producer, None)
        self._logged.pop(plan.producer, None)
        if drop:
            await self._drop(part.stage for part in plan.parts)
        else:
            self.stages.release(part.stage for part in plan.parts)

    async def _drop(self, stages: Iterable[str]) -> None:
        await asyncio.to_thread(remove, self.stages.forget(dict.fromkeys(stages)))

    async def _state(self, producer: str) -> BulkProducer | None:
        """The progress of a producer, as it is in the journal."""
        address = address_of(producer)
        return await self._requests.inspect(lambda: self.engine.broker.bulk.producers.get(address))

    async def _heads(self, plan: CommitPlan) -> list[PartHead]:
        return await _read(partial(self.stages.heads, plan.parts))

    async def _entries(self, part: PartName, plan: CommitPlan) -> list[c.Row]:
        return await _read(partial(read_entries, self.stages.path(part), plan.rerouted))


async def _read(read: Callable[[], _Content]) -> _Content:
    """The result of `read`, which blocks. Raises Refused when a file is damaged."""
    try:
        return await asyncio.to_thread(read)
    except PartDamaged as damaged:
        detail = f"staged rows cannot be read: {damaged}. Stage the rows again"
        raise Refused("conflict", detail, restage=True) from damaged


def _needs(heads: Iterable[PartHead], rerouted: Mapping[str, str]) -> dict[str, c.Need]:
    """The room that all parts need, by address."""
    found: dict[str, c.Need] = {}
    for head in heads:
        for address, need in head.needs.items():
            if address not in rerouted:
                found[address] = found[address].plus(need) if address in found else need
    return found


def _stopping() -> Refused:
    """The refusal of a broker that stops; rows that it has not published yet are published when it starts."""
    return Refused("not-active", "the broker is stopping; send the commit again when it serves")


def _nothing(_answer: object) -> None:
    """Return nothing: that it was done is enough."""
