"""The job manager: makes plans, keeps jobs, and runs a few of them at a time."""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
import time
from array import array
from collections import Counter, OrderedDict
from collections.abc import AsyncIterable
from functools import partial
from pathlib import Path

from broker_app.base.process.in_thread import in_thread_if_large
from broker_app.base.refused import Refused
from broker_app.base.shares import Shares
from broker_app.engine import Engine
from broker_app.engine.client import EngineClient
from broker_app.features.jobs import filters, plan, store
from broker_app.features.jobs.export_job import ExportJob
from broker_app.features.jobs.import_job import ImportJob
from broker_app.features.jobs.job import CANCELLED, FAILED, Job
from broker_app.features.jobs.message_reader import JournalRead
from broker_app.features.jobs.plan import JobPlan, JobSpec
from broker_app.features.jobs.purge_job import PurgeJob
from broker_app.features.jobs.replay_job import ReplayJob
from broker_app.features.jobs.slots import Slots
from broker_app.features.jobs.store import Store
from broker_app.features.jobs.transfer_job import TransferJob
from broker_app.features.jobs.worker import JobContext, JobRunner, LineFormat
from broker_app.features.masks.user_masks import NO_MASKS, UserMasks

log = logging.getLogger(__name__)

#: jobs that may be waiting or running: all, those of one user, and those of all but administrators
MAX_OPEN = 100
MAX_OPEN_OF_USER = 20
MAX_OPEN_OF_USERS = 80
#: plans that are kept, and how long
MAX_PLANS = 50
PLAN_VALID_MS = 15 * 60 * 1000
#: positions of all plans together: 8 bytes each
MAX_PLANNED = 10_000_000
#: plans that are made at the same time
MAX_PLANNING = 4
MAX_IMPORT_BYTES = 1024 * 1024 * 1024
MAX_IMPORT_LINES = 1 << 24


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class JobManager:
    """All jobs of a node. `directory` holds their files; `read` is `Journal.read`. Made within the running
    loop; `start` once the engine has recovered, before clients connect; `stop` before the engine stops."""

    def __init__(self, engine: Engine, read: JournalRead, directory: Path, lines: LineFormat) -> None:
        self._engine_requests = EngineClient(engine, "jobs")
        self._store = Store(directory)
        self._context = JobContext(
            self._engine_requests, read, self._store, lines, secrets.token_hex(8), _now_ms
        )
        self._plans: OrderedDict[str, JobPlan] = OrderedDict()
        self._jobs: dict[str, Job] = {}
        self._runners: dict[str, JobRunner] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._slots = Slots()
        self._numbers = itertools.count(1)
        self._planning = Shares(lambda: MAX_PLANNING, "plans that are being made")
        self._stopping = False
        #: of all files of finished jobs
        self.bytes_kept = 0

    async def start(self) -> None:
        """Load all jobs, and continue those that a former process had not finished.

        Before there are clients: they could consume messages that an unfinished job has moved.
        """
        for job in self._store.load():
            self._jobs[job.id] = job
            if not job.open:
                continue
            runner = _runner_of(job, self._context)
            try:
                await runner.restore()
            except (OSError, ValueError, KeyError) as error:
                log.warning("job %s cannot be read any more: %s", job.id, error)
                job.state, job.reason, job.ended_ms = FAILED, "its files were damaged", _now_ms()
            else:
                self._begin(runner)
        self._numbers = itertools.count(1 + max((job.number for job in self._jobs.values()), default=0))
        self._prune()

    async def stop(self) -> None:
        """Stop every job after its present batch; the next start continues it."""
        self._stopping = True
        for runner in self._runners.values():
            runner.stop(cancel=False)
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def engine_ended(self, error: BaseException) -> None:
        """Fail all requests: the engine has ended."""
        self._engine_requests.engine_ended(error)

    # ------------------------------------------------------------------ plans

    async def plan(
        self, spec: JobSpec, user: str, *, admin: bool = False, masks: UserMasks = NO_MASKS
    ) -> JobPlan:
        """A dry run; `masks` are those of the user. Raises Refused."""
        with self._planning.taken(user, admin=admin):
            now_ms = _now_ms()
            job_plan = await plan.build(
                spec,
                "p_" + secrets.token_hex(6),
                self._engine_requests,
                self._context.read,
                now_ms,
                now_ms + PLAN_VALID_MS,
                masks,
            )
        job_plan.user = user
        self._plans[job_plan.id] = job_plan
        self._forget_plans()
        return job_plan

    def _forget_plans(self) -> None:
        """While there are too many, forget the oldest plan of the user with the most."""
        while True:
            plans = Counter(known.user for known in self._plans.values())
            planned: Counter[str] = Counter()
            for known in self._plans.values():
                planned[known.user] += len(known.positions)
            if len(self._plans) > MAX_PLANS:
                user = max(plans, key=plans.__getitem__)
            elif len(self._plans) > 1 and planned.total() > MAX_PLANNED:
                user = max(planned, key=planned.__getitem__)
            else:
                return
            del self._plans[next(name for name, known in self._plans.items() if known.user == user)]

    def find_plan(self, plan_id: str) -> JobPlan:
        """Raises Refused if it is unknown, was run, or has expired."""
        job_plan = self._plans.get(plan_id)
        if job_plan is None or job_plan.valid_until_ms < _now_ms():
            raise Refused("not-found", f"there is no plan {plan_id[:80]!r}; it was run, or has expired")
        return job_plan

    # ------------------------------------------------------------------ jobs

    async def run(self, job_plan: JobPlan, user: str, *, admin: bool = False) -> Job:
        """Start the job of a plan, once. Raises Refused."""
        spec = self.find_plan(job_plan.id).spec
        job = self._new(spec.op, job_plan.source, job_plan.target, user, job_plan.count, admin=admin)
        del self._plans[job_plan.id]
        job.filter, job.rate_per_s, job.max_error_ratio = spec.filter, spec.rate_per_s, spec.max_error_ratio
        job.next_position, job.topic = job_plan.next_position, job_plan.topic
        if spec.op == plan.EXPORT:
            job.masks = job_plan.masks.masks
        return await self._keep(job, job_plan.positions)

    async def undo(self, job_id: str, user: str, *, admin: bool = False) -> Job:
        """Begin a job that moves back the messages that another one moved. Raises Refused."""
        former = self.get(job_id)
        if not former.can_undo:
            raise Refused("conflict", f"job {job_id} cannot be undone: {_undo_refusal(former)}")
        job = self._new(plan.UNDO, former.target, former.source, user, former.counts["done"], admin=admin)
        job.undo_of, job.boot, job.topic = former.id, former.boot, former.topic
        former.undone_by = job.id
        await asyncio.to_thread(self._store.save, former)
        return await self._keep(job, array("Q"))

    async def start_import(
        self, target: str, lines: AsyncIterable[list[bytes]], user: str, *, admin: bool = False
    ) -> Job:
        """Store an upload, then begin to publish it into a queue. Raises Refused."""
        address = plan.check_target(filters.address_of(target))
        job = self._new(plan.IMPORT, "", address, user, 0, admin=admin)
        folder = self._store.folder(job.id)
        folder.mkdir(parents=True)
        try:
            with self._store.open_import(job.id, "wb") as file:
                async for run in lines:
                    kept = [part for line in run if line.strip() for part in (line, b"\n")]
                    job.total += len(kept) // 2
                    if job.total > MAX_IMPORT_LINES or file.tell() > MAX_IMPORT_BYTES:
                        raise Refused("too-large", f"an import is at most {MAX_IMPORT_BYTES} bytes long")
                    await in_thread_if_large(sum(map(len, kept)), partial(file.writelines, kept))
            return await self._keep(job, array("Q"))
        except BaseException:
            if job.id not in self._jobs:
                self._store.remove(job.id)
            raise

    def get(self, job_id: str) -> Job:
        """Raises Refused."""
        job = self._jobs.get(job_id)
        if job is None:
            raise Refused("not-found", f"there is no job {job_id[:80]!r}")
        return job

    def all(self) -> list[Job]:
        """The newest first."""
        return sorted(self._jobs.values(), key=lambda job: -job.number)

    async def cancel(self, job_id: str) -> Job:
        """Cancel a job after its present batch; what it has done stays. Raises Refused."""
        job = self.get(job_id)
        if not job.open:
            raise Refused("conflict", f"job {job_id} has ended already: it is {job.state}")
        runner = self._runners[job_id]
        runner.stop(cancel=True)
        return job

    def results_file(self, job_id: str) -> Path:
        """The file with the results of a job, if any. Raises Refused."""
        return self._store.results_file(self.get(job_id).id)

    def export_file(self, job_id: str) -> Path:
        """The file with the export of a job. Raises Refused if it is not an export, or not done."""
        job = self.get(job_id)
        if job.op != plan.EXPORT:
            raise Refused("conflict", f"job {job_id} is not an export")
        if job.open or job.state == CANCELLED:
            raise Refused("conflict", f"the export is {job.state}: {job.processed} of {job.total} messages")
        return self._store.export_file(job_id)

    # ------------------------------------------------------------------ internals

    def _new(self, op: str, source: str, target: str, user: str, total: int, *, admin: bool) -> Job:
        if self._stopping:
            raise Refused("not-active", "the node is stopping")
        self._check_room(user, admin=admin)
        number = next(self._numbers)
        return Job(
            id=f"j_{number:x}{secrets.token_hex(4)}",
            number=number,
            op=op,
            source=source,
            target=target,
            user=user,
            admin=admin,
            boot=self._context.boot,
            created_ms=_now_ms(),
            total=total,
        )

    def _check_room(self, user: str, *, admin: bool) -> None:
        """Raises Refused if no further job may be open."""
        opened = [job for job in self._jobs.values() if job.open]
        of_users = [job for job in opened if not job.admin]
        if not admin and sum(job.user == user for job in of_users) >= MAX_OPEN_OF_USER:
            detail = f"{MAX_OPEN_OF_USER} jobs of {user} are waiting or working already; cancel one of them"
            raise Refused("busy", detail)
        if len(opened) >= MAX_OPEN or (not admin and len(of_users) >= MAX_OPEN_OF_USERS):
            raise Refused("busy", f"{len(opened)} jobs are waiting or working already")

    async def _keep(self, job: Job, positions: array[int]) -> Job:
        self._jobs[job.id] = job
        self._prune()
        try:
            await asyncio.to_thread(self._store.create, job, positions)
        except OSError as error:
            del self._jobs[job.id]
            self._store.remove(job.id)
            raise Refused("store-unavailable", f"the job cannot be kept: {error.strerror}") from error
        self._begin(_runner_of(job, self._context))
        return job

    def _begin(self, runner: JobRunner) -> None:
        self._runners[runner.job.id] = runner
        task = asyncio.create_task(self._run(runner))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, runner: JobRunner) -> None:
        try:
            async with self._slots.turn(runner.job.user, admin=runner.job.admin):
                if not self._stopping:
                    await runner.run()
        except Exception:
            log.exception("job %s failed", runner.job.id)
            runner.job.state, runner.job.reason = FAILED, "the node failed; its log has the details"
        finally:
            del self._runners[runner.job.id]
            if not runner.job.open:
                self._prune()

    def _prune(self) -> None:
        """Forget finished jobs over the limits of number, age and size; the newest one stays, however large
        it is."""
        ended = sorted((job for job in self._jobs.values() if not job.open), key=lambda job: job.number)
        needed = {job.undo_of for job in self._jobs.values() if job.open}
        sizes = {job.id: self._store.size(job.id) for job in ended}
        too_many, size = len(ended) - store.MAX_KEPT, sum(sizes.values())
        for at, job in enumerate(ended):
            old = job.ended_ms < _now_ms() - store.MAX_AGE_MS
            large = size > store.MAX_BYTES and job is not ended[-1]
            if (at < too_many or old or large) and job.id not in needed:
                size -= sizes[job.id]
                del self._jobs[job.id]
                self._store.remove(job.id)
        self.bytes_kept = size


def _runner_of(job: Job, context: JobContext) -> JobRunner:
    kinds = {
        plan.PURGE: PurgeJob,
        plan.EXPORT: ExportJob,
        plan.REPLAY: ReplayJob,
        plan.IMPORT: ImportJob,
    }
    return kinds.get(job.op, TransferJob)(job, context)


def _undo_refusal(job: Job) -> str:
    if job.open:
        return "it has not ended; cancel it first"
    if job.undone_by:
        return f"job {job.undone_by} did it already"
    if job.op not in (plan.MOVE, plan.RETRY):
        return f"op {job.op} is final"
    return "it moved nothing"
