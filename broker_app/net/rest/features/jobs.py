"""Jobs over HTTP: operations on many messages, which are planned, run, watched, cancelled and undone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
from msgspec import UNSET, UnsetType

from broker_app.base.audit_actions import JOB_CANCELLED, JOB_READ, JOB_STARTED, JOB_UNDONE, QUEUE_READ
from broker_app.base.times import of_ms
from broker_app.core import commands as c
from broker_app.core.broker import Broker
from broker_app.core.destination import parse
from broker_app.features.jobs import filters
from broker_app.features.jobs.job import STATUSES, Job
from broker_app.features.jobs.job_manager import JobManager
from broker_app.features.jobs.plan import JobPlan, JobSpec
from broker_app.net.http.limits import RestLimits
from broker_app.net.http.refusals import invalid
from broker_app.net.http.replies import NDJSON, Header, Reply, json_reply
from broker_app.net.http.requests import Request, whole_number
from broker_app.net.http.routing import Handlers
from broker_app.net.rest.features.rights import JobRights
from broker_app.net.rest.messages import message_json
from broker_app.rules.event import SEND

_CHUNK = 256 * 1024


class JobRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Either `plan`, or an operation; `dry_run` makes a plan of it and changes nothing."""

    plan: str | UnsetType = UNSET
    op: str | UnsetType = UNSET
    source: str | UnsetType = UNSET
    target: str | None = None
    filter: str | dict[str, object] | None = None
    limit: int | None = None
    rate_per_s: float | None = None
    max_error_ratio: float = 0.2
    dry_run: bool = False


class JobEndpoints:
    """Endpoints below `/jobs`, and the upload of an import."""

    def __init__(
        self, jobs: JobManager, broker: Broker, blocks: message_json.Blocks, limits: RestLimits
    ) -> None:
        self._jobs = jobs
        self._rights = JobRights(broker)
        self._ids = broker.turn.ids
        self._blocks = blocks
        self._limits = limits

    def handlers(self) -> Handlers:
        """The endpoints by operation."""
        return {
            "list_jobs": self.all,
            "begin_job": self.begin,
            "get_job": self.one,
            "cancel_job": self.cancel,
            "undo_job": self.undo,
            "get_job_results": self.results,
            "get_export": self.exported,
            "import_messages": self.upload,
        }

    async def begin(self, request: Request) -> Reply:
        """POST jobs"""
        request.query()
        body = await request.json(JobRequest)
        if not isinstance(body.plan, UnsetType):
            if not (isinstance(body.op, UnsetType) and isinstance(body.source, UnsetType)):
                raise invalid("/plan", "a plan contains the operation; send only the plan")
            job_plan = self._jobs.find_plan(body.plan)
            self._rights.permit_plan(request, job_plan)
            return await self._run(request, job_plan)
        if isinstance(body.op, UnsetType) or isinstance(body.source, UnsetType):
            missing = "op" if isinstance(body.op, UnsetType) else "source"
            raise invalid(f"/{missing}", "is missing, and there is no plan")
        spec = JobSpec(
            body.op,
            body.source,
            body.target,
            body.filter,
            body.limit,
            body.rate_per_s,
            body.max_error_ratio,
        )
        by_body = filters.of(spec.filter).q is not None
        self._rights.permit_source(request, spec.op, filters.address_of(spec.source), by_body=by_body)
        masks = request.access.masks_of(request.client)
        job_plan = await self._jobs.plan(spec, request.user, admin=request.is_admin, masks=masks)
        self._rights.permit_plan(request, job_plan)
        if body.dry_run:
            return json_reply(self._planned(request, job_plan))
        return await self._run(request, job_plan)

    async def _run(self, request: Request, job_plan: JobPlan) -> Reply:
        admin = request.is_admin
        return _begun(request, await self._jobs.run(job_plan, request.user, admin=admin))

    async def upload(self, request: Request) -> Reply:
        """POST queues/{name}/import: lines of JSON, each a message."""
        request.query(("queue",))
        request.check_json(NDJSON)
        target = request.permitted(SEND, "/queue/" + request.name).address
        lines = self._permitted(request, request.lines(self._limits.max_batch_bytes), target)
        admin = request.is_admin
        return _begun(request, await self._jobs.start_import(target, lines, request.user, admin=admin))

    async def all(self, request: Request) -> Reply:
        """GET jobs: the newest first."""
        query = request.query(("limit", "after"))
        limit = whole_number(query, "limit", 50, 1, self._limits.max_page)
        after = whole_number(query, "after", 1 << 40, 0, 1 << 40)
        jobs = [job for job in self._jobs.all() if self._rights.shows(request, job)]
        newest = [job for job in jobs if job.number < after][: limit + 1]
        following = str(newest[limit - 1].number) if len(newest) > limit else None
        rows = [_shown(job) for job in newest[:limit]]
        return json_reply({"items": rows, "next": following, "approx_total": len(jobs)})

    async def one(self, request: Request) -> Reply:
        """GET jobs/{id}"""
        request.query()
        return json_reply(_shown(self._seen(request)))

    async def cancel(self, request: Request) -> Reply:
        """POST jobs/{id}/cancel"""
        request.query()
        self._rights.permit_cancel(request, self._jobs.get(request.name))
        job = await self._jobs.cancel(request.name)
        request.audit(JOB_CANCELLED, job.id, op=job.op, processed=job.processed)
        return json_reply(_shown(job))

    async def undo(self, request: Request) -> Reply:
        """POST jobs/{id}/undo"""
        request.query()
        self._rights.permit_undo(request, self._jobs.get(request.name))
        admin = request.is_admin
        undoing = await self._jobs.undo(request.name, request.user, admin=admin)
        request.audit(JOB_UNDONE, request.name, by=undoing.id)
        return _accepted(undoing)

    async def results(self, request: Request) -> Reply | None:
        """GET jobs/{id}/results"""
        request.query()
        return await _stream(request, self._jobs.results_file(self._seen(request).id))

    async def exported(self, request: Request) -> Reply | None:
        """GET jobs/{id}/export"""
        request.query()
        job = self._jobs.get(request.name)
        self._rights.permit_export(request, job)
        request.audit(JOB_READ, job.id, source=job.source, messages=job.processed)
        return await _stream(request, self._jobs.export_file(request.name), *message_json.UNTRUSTED)

    async def _permitted(
        self, request: Request, lines: AsyncIterator[list[bytes]], target: str
    ) -> AsyncIterator[list[bytes]]:
        """The lines of an upload, while the client has the right to send. Raises Refused."""
        async for run in lines:
            request.access.recheck(request.client, SEND, parse(target))
            yield run

    def _seen(self, request: Request) -> Job:
        job = self._jobs.get(request.name)
        self._rights.permit_view(request, job)
        return job

    def _planned(self, request: Request, plan: JobPlan) -> dict[str, object]:
        preview = self._limits.max_preview_bytes // 16
        address = plan.topic or plan.source
        rows = [
            message_json.browsed(
                plan.masks.shown(address, message),
                *(self._ids.of(message), "ready", preview, self._blocks, message.attempts),
                size=size,
            )
            for message, size in plan.sample
        ]
        if self._rights.may_read(request, plan):
            request.audit_read(QUEUE_READ, plan.source, len(rows))
        else:
            rows = [
                message_json.only(row, message_json.BROWSED_FIELDS - message_json.BODY_FIELDS) for row in rows
            ]
        return {
            "plan": plan.id,
            "op": plan.spec.op,
            "source": plan.source,
            "target": plan.target or None,
            "matches": plan.matches,
            "count": plan.count,
            "scanned": plan.scanned,
            "complete": plan.complete,
            "by_origin": {name.removeprefix("/queue/"): n for name, n in plan.by_origin.most_common()},
            "by_reason": dict(plan.by_reason.most_common()),
            "oldest": of_ms(plan.oldest_ms),
            "newest": of_ms(plan.newest_ms),
            "sample": [msgspec.Raw(row) for row in rows],
            "warnings": plan.warnings,
            "valid_until": of_ms(plan.valid_until_ms),
        }


def _begun(request: Request, job: Job) -> Reply:
    request.audit(
        JOB_STARTED, job.id, op=job.op, source=job.source, target=job.target,
        filter=job.filter, messages=job.total,
    )  # fmt: skip
    return _accepted(job)


def _accepted(job: Job) -> Reply:
    return json_reply(_shown(job), 202, [(b"location", f"/api/v1/jobs/{job.id}".encode())])


def _shown(job: Job) -> dict[str, object]:
    counts = {status: job.counts.get(status, 0) for status in STATUSES}
    return {
        "id": job.id,
        "op": job.op,
        "state": job.state,
        "source": job.source or None,
        "target": "origin" if job.target == c.ORIGIN else job.target or None,
        "filter": job.filter,
        "user": job.user,
        "created": of_ms(job.created_ms),
        "started": of_ms(job.started_ms),
        "ended": of_ms(job.ended_ms),
        "total": job.total,
        "processed": job.processed,
        **counts,
        "rate_per_s": job.rate_per_s,
        "reason": job.reason or None,
        "can_undo": job.can_undo,
        "undo_of": job.undo_of or None,
        "undone_by": job.undone_by or None,
    }


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


async def _stream(request: Request, path: Path, *more: Header) -> Reply | None:
    """Send the lines of a file that are written; none if there is no file yet."""
    if request.method == "HEAD":
        return Reply(200, NDJSON)
    size = _size(path)
    headers = [*request.reply_headers, *more, (b"content-type", NDJSON), (b"content-length", b"%d" % size)]
    headers.append((b"cache-control", b"no-store"))
    await request.send({"type": "http.response.start", "status": 200, "headers": headers})
    if size:
        with path.open("rb") as file:
            while size > 0:
                chunk = file.read(min(size, _CHUNK))
                size -= len(chunk)
                await request.send({"type": "http.response.body", "body": chunk, "more_body": True})
    await request.send({"type": "http.response.body", "body": b""})
    return None
