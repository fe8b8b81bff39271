"""Plans: the exact messages that a job would process, and its preview."""

from __future__ import annotations

import copy
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import msgspec

from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core.broker import Broker
from broker_app.core.destination import QUEUE, is_reserved, parse
from broker_app.core.inspection.views import LaneContents
from broker_app.core.message import Message
from broker_app.core.storage import dead_letter_headers
from broker_app.engine.client import EngineClient
from broker_app.features.jobs import filters, message_reader
from broker_app.features.jobs.filters import Filter
from broker_app.features.jobs.message_reader import JournalRead, QueueSnapshot
from broker_app.features.masks.user_masks import NO_MASKS, UserMasks

MOVE, COPY, DELETE, RETRY, PURGE, EXPORT, REPLAY, IMPORT, UNDO = (
    "move",
    "copy",
    "delete",
    "retry",
    "purge",
    "export",
    "replay",
    "import",
    "undo",
)
#: operations that are planned; an import begins with its upload, an undo with the job that it undoes
PLANNED = (MOVE, COPY, DELETE, RETRY, PURGE, EXPORT, REPLAY)
WITH_TARGET = (MOVE, COPY, RETRY, REPLAY)

#: messages of one job; of a purge, any number
MAX_MESSAGES = 1_000_000
#: messages that a filter checks, and bytes of them, before the plan is marked as incomplete
MAX_SCANNED = 1_000_000
MAX_SCANNED_BYTES = 1024 * 1024 * 1024
#: messages of the preview, and bytes of them; a larger one is alone, and only its beginning is kept, which
#: is more than is shown of it and than masks look at
SAMPLE = 5
SAMPLE_BYTES = 1024 * 1024
#: origins with a warning
MAX_WARNED = 20
#: messages a second; a slower job would hold its slot for weeks
SLOWEST, FASTEST = 1, 1_000_000


class JobSpec(msgspec.Struct, forbid_unknown_fields=True):
    """A requested operation. `target` is a queue or "origin"; `limit` and `rate_per_s` bound it."""

    op: str
    source: str
    target: str | None = None
    filter: str | dict[str, Any] | None = None
    limit: int | None = None
    rate_per_s: float | None = None
    #: the part of refused messages above which a job stops
    max_error_ratio: float = 0.2


class Sample(NamedTuple):
    """A message of the preview, or its beginning, and the size of its whole body."""

    message: Message
    size: int


@dataclass(slots=True)
class JobPlan:
    """`positions` are those of the messages of the job, in order; a purge has none, it takes all below
    `next_position`. The other members are for the preview. Times are ms since 1970."""

    id: str
    spec: JobSpec
    source: str
    target: str
    valid_until_ms: int
    #: filter of the topic, where the source is a durable subscription
    topic: str = ""
    #: the user that requested it, and the masks of that user
    user: str = ""
    masks: UserMasks = NO_MASKS
    positions: array[int] = field(default_factory=lambda: array("Q"))
    next_position: int = 0
    matches: int = 0
    scanned: int = 0
    complete: bool = True
    bytes: int = 0
    by_origin: Counter[str] = field(default_factory=Counter)
    by_reason: Counter[str] = field(default_factory=Counter)
    oldest_ms: int = 0
    newest_ms: int = 0
    sample: list[Sample] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def count(self) -> int:
        """The number of messages that the job will process."""
        return self.matches if self.spec.op == PURGE else len(self.positions)


async def build(
    spec: JobSpec,
    plan_id: str,
    engine_requests: EngineClient,
    read: JournalRead,
    now_ms: int,
    valid_until_ms: int,
    masks: UserMasks = NO_MASKS,
) -> JobPlan:
    """Make the plan of `spec`; nothing is changed. Its filter finds nothing by what is hidden. Raises
    Refused if the job is not possible."""
    chosen = _check(spec)
    source, target = filters.address_of(spec.source), _target(spec)
    broker = engine_requests.engine.broker
    named, snapshot = await engine_requests.inspect(
        lambda: (broker.destinations.named.get(source), _snapshot(broker, spec.op, source, chosen.state))
    )
    topic = named.terms.filter if named is not None else ""
    plan = JobPlan(plan_id, spec, source, target, valid_until_ms, topic, next_position=snapshot.next_position)
    plan.masks = masks
    most = min(spec.limit or MAX_MESSAGES, MAX_MESSAGES)
    if chosen.empty and target != c.ORIGIN:
        await _take_all(plan, snapshot, read, most)
    else:
        fits = filters.fitting(chosen, broker.turn.ids, now_ms)
        await _match(plan, masks.fitting(topic or source, fits), snapshot, broker, read, most)
    plan.warnings += _warnings(plan, broker, snapshot)
    return plan


def _check(spec: JobSpec) -> Filter:
    if spec.op not in PLANNED:
        raise Refused("invalid", f"op is {spec.op[:80]!r}; one of {', '.join(PLANNED)} is needed")
    if spec.limit is not None and not 1 <= spec.limit <= MAX_MESSAGES:
        raise Refused("invalid", f"limit is {spec.limit}; it must be from 1 to {MAX_MESSAGES}")
    if spec.rate_per_s is not None and not SLOWEST <= spec.rate_per_s <= FASTEST:
        raise Refused("invalid", f"rate_per_s must be from {SLOWEST} to {FASTEST} messages a second")
    if not 0 < spec.max_error_ratio <= 1:
        raise Refused("invalid", "max_error_ratio must be above 0 and at most 1")
    if (spec.op in WITH_TARGET) != (spec.target is not None) and spec.op != RETRY:
        needed = "needs a target" if spec.op in WITH_TARGET else "has no target"
        raise Refused("invalid", f"op {spec.op} {needed}")
    if spec.target == c.ORIGIN and spec.op in (COPY, REPLAY):
        raise Refused(
            "invalid", f"op {spec.op} needs a queue as target; retry returns dead letters to theirs"
        )
    chosen = filters.of(spec.filter)
    if chosen.state == "delayed" and spec.op not in (DELETE, EXPORT):
        raise Refused(
            "invalid", f"op {spec.op} takes what waits; delayed messages can be deleted and exported"
        )
    if spec.op == PURGE and not (chosen.empty and spec.limit is None):
        raise Refused("invalid", "op purge takes everything; op delete has a filter and a limit")
    return chosen


def _target(spec: JobSpec) -> str:
    """The address, ORIGIN, or empty."""
    if spec.op == RETRY and spec.target is None:
        return c.ORIGIN
    if spec.target is None or spec.target == c.ORIGIN:
        return spec.target or ""
    address = check_target(filters.address_of(spec.target))
    if address == filters.address_of(spec.source):
        raise Refused("invalid", "source and target are the same queue")
    return address


def check_target(address: str) -> str:
    """Return `address` if messages can be put there. Raises Refused."""
    destination = parse(address)
    if destination.kind != QUEUE or is_reserved(destination.name):
        raise Refused("bad-destination", f"messages are moved to queues, and {address} is none")
    return address


def _snapshot(broker: Broker, op: str, source: str, state: str | None) -> QueueSnapshot:
    if op == REPLAY:
        if source not in broker.histories.histories:
            raise Refused("not-found", f"no messages of {source} are retained; `topic:<name>` names a topic")
        return message_reader.snapshot_history(broker, source)
    if state == "delayed" and source in broker.scheduler.schedules:
        return message_reader.snapshot_scheduled(broker, source)
    queue = broker.destinations.queues.get(source)
    if queue is None or not queue.durable:
        raise Refused("not-found", f"there is no queue {source.removeprefix('/queue/')!r}")
    if state == "delayed":
        return QueueSnapshot([], 0, broker.turn.next_position)
    return message_reader.snapshot_queue(broker, queue)


async def _take_all(plan: JobPlan, snapshot: QueueSnapshot, read: JournalRead, most: int) -> None:
    """Take all messages; without a filter only the sample is read."""
    plan.matches = snapshot.size
    if plan.spec.op != PURGE:
        plan.positions = snapshot.positions()[:most]
    await message_reader.read_each(read, plan.source, _ends(snapshot), partial(_note_time, plan))
    few = [LaneContents(lane.messages[:SAMPLE], lane.outside[:SAMPLE]) for lane in snapshot.lanes]
    await message_reader.read_each(
        read, plan.source, QueueSnapshot(few, 0, 0), partial(_take_as_sample, plan)
    )


def _ends(snapshot: QueueSnapshot) -> QueueSnapshot:
    """The first and the last message of each lane, in memory and outside."""
    lanes = [
        LaneContents(
            [lane.messages[at] for at in (0, -1) if lane.messages], lane.outside[:1] + lane.outside[-1:]
        )
        for lane in snapshot.lanes
    ]
    return QueueSnapshot(lanes, 0, 0)


def _take_as_sample(plan: JobPlan, message: Message) -> bool:
    """Keep a message for the preview; False if there are enough, or they are too large."""
    kept, size = sum(len(one.message.body) for one in plan.sample), len(message.body)
    if len(plan.sample) == SAMPLE or (plan.sample and kept + size > SAMPLE_BYTES):
        return False
    if size > SAMPLE_BYTES:
        message = copy.copy(message)
        message.body = message.body[:SAMPLE_BYTES]
    plan.sample.append(Sample(message, size))
    return True


async def _match(
    plan: JobPlan, fits: filters.Fits, snapshot: QueueSnapshot, broker: Broker, read: JournalRead, most: int
) -> None:
    """Read the messages and take those that match."""
    of = broker.turn.ids.of
    seen = 0

    def see(message: Message) -> bool:
        nonlocal seen
        if plan.scanned >= MAX_SCANNED or seen >= MAX_SCANNED_BYTES:
            plan.complete = False
            return False
        plan.scanned += 1
        seen += len(message.body)
        if fits(message, of(message)):
            _take(plan, message, most)
        return True

    await message_reader.read_each(read, plan.source, snapshot, see)


def _take(plan: JobPlan, message: Message, most: int) -> None:
    """Count a message that matches."""
    plan.matches += 1
    if len(plan.positions) < most:
        plan.positions.append(message.position)
        plan.bytes += len(message.body)
    _take_as_sample(plan, message)
    _note_time(plan, message)
    headers = filters.headers_of(message.envelope.block)
    origin = dead_letter_headers.origin_of(message.envelope.block)
    if origin:
        filters.count(plan.by_origin, origin)
    if "dead-reason" in headers:
        filters.count(plan.by_reason, filters.reason_of(headers))


def _note_time(plan: JobPlan, message: Message) -> bool:
    plan.oldest_ms = min(plan.oldest_ms or message.time_ms, message.time_ms)
    plan.newest_ms = max(plan.newest_ms, message.time_ms)
    return True


# ---------------------------------------------------------------------- warnings


def _warnings(plan: JobPlan, broker: Broker, snapshot: QueueSnapshot) -> Iterator[str]:
    if not plan.complete:
        yield f"only the first {plan.scanned} messages were checked; run it again for the others"
    if plan.spec.op != PURGE and plan.matches > len(plan.positions):
        yield f"{plan.matches} messages match; this job takes the first {len(plan.positions)}"
    if snapshot.unsettled and plan.spec.op not in (COPY, EXPORT, REPLAY):
        yield f"{snapshot.unsettled} messages are unsettled and not processed"
    if plan.target == c.ORIGIN:
        lost = plan.matches - sum(plan.by_origin.values())
        if lost:
            named = "message names" if lost == 1 else "messages name"
            yield f"{lost} {named} no origin and will be refused"
        for origin, count in plan.by_origin.most_common(MAX_WARNED):
            if origin != filters.OTHERS:
                yield from _of_target(broker, origin, count)
    elif plan.target:
        yield from _of_target(broker, plan.target, len(plan.positions))


def _of_target(broker: Broker, address: str, count: int) -> Iterator[str]:
    """Warnings about the queue that `count` messages go to."""
    name = address.removeprefix("/queue/")
    queue = broker.destinations.queues.get(address)
    policy = broker.turn.policies.of(address) if queue is None else queue.policy
    if queue is None:
        yield f"{name} does not exist and will be created; it has no consumer"
    elif not queue.consumers:
        yield f"{name} has no consumer"
    room = policy.max_messages - (queue.depth if queue is not None else 0)
    if policy.max_messages and room < count:
        yield f"{name} has room for {max(0, room)} of {count} messages (max_messages)"
