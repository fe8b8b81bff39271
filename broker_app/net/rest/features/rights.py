"""The permissions of jobs: at the source and at the target of messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from broker_app.base.refused import Refused
from broker_app.core.broker import Broker
from broker_app.core.commands import ORIGIN
from broker_app.core.destination import (
    DURABLE_PREFIX,
    SHARED_PREFIX,
    Destination,
    parse,
    topic_of_dead_letters,
)
from broker_app.core.storage import dead_letter_headers
from broker_app.features.jobs import plan
from broker_app.features.jobs.job import Job
from broker_app.features.jobs.plan import JobPlan
from broker_app.net.http.requests import Request
from broker_app.rules.event import BROWSE, MANAGE, READ, SEND

#: the right that each operation needs at the source
_AT_SOURCE: Mapping[str, str] = MappingProxyType(
    {
        plan.MOVE: MANAGE,
        plan.DELETE: MANAGE,
        plan.RETRY: MANAGE,
        plan.PURGE: MANAGE,
        plan.UNDO: MANAGE,
        plan.COPY: READ,
        plan.EXPORT: READ,
        plan.REPLAY: READ,
    }
)


class JobRights:
    """Checks the permissions of a request. Messages of durable subscriptions belong to their topic."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def permit(self, request: Request, right: str, address: str) -> None:
        """Raises Refused without the right to an address, and for a durable subscription that was deleted."""
        destination = destination_of(self._broker, address)
        if destination is None:
            name = address.removeprefix(DURABLE_PREFIX)
            raise Refused("not-found", f"there is no durable subscription {name[:100]!r}")
        request.access.check(request.client, right, destination)

    def permit_source(self, request: Request, op: str, source: str, *, by_body: bool) -> None:
        """Raises Refused without the permissions of a plan; `by_body`: bodies are searched."""
        if op in _AT_SOURCE:  # the plan refuses unknown operations
            self.permit(request, _AT_SOURCE[op], source)
        if by_body:
            self.permit(request, READ, source)

    def permit_plan(self, request: Request, job_plan: JobPlan) -> None:
        """Raises Refused if the client may not do all operations of a plan."""
        request.access.check(
            request.client, _AT_SOURCE[job_plan.spec.op], parse(job_plan.topic or job_plan.source)
        )
        for target in self._targets(job_plan.target, job_plan.by_origin):
            self.permit(request, SEND, target)
        if job_plan.target and job_plan.target != ORIGIN:
            self._permit_whole(request, job_plan)

    def permit_undo(self, request: Request, job: Job) -> None:
        """Raises Refused if the client may not move back the messages of a job."""
        self.permit_view(request, job)
        if not job.can_undo:
            return  # the job manager refuses it
        if job.target == ORIGIN:
            # Only the dead letters had the targets, and they are gone.
            self._permit_own(request, job)
        else:
            self.permit_source(request, plan.UNDO, job.target, by_body=False)
        # Clients cannot send to dead letters of durable subscriptions; an undo moves them back nevertheless.
        self.permit(request, MANAGE if _is_of_subscription(job.source) else SEND, job.source)

    def permit_cancel(self, request: Request, job: Job) -> None:
        """Raises Refused unless the client began the job or may manage its source."""
        if not self._is_own(request, job):
            self._permit_kept(request, MANAGE, job)

    def permit_export(self, request: Request, job: Job) -> None:
        self._permit_kept(request, READ, job)
        masks = request.access.masks_of(request.client).masks
        beyond = [mask.name for mask in masks if mask not in job.masks]
        if beyond:
            raise Refused(
                "not-allowed",
                f"export {job.id} has values that mask {beyond[0]} hides from you: begin one of your own",
                mask=beyond[0],
            )

    def permit_view(self, request: Request, job: Job) -> None:
        if not self._is_own(request, job):
            self._permit_kept(request, BROWSE, job)

    def shows(self, request: Request, job: Job) -> bool:
        """True if a list may contain the job."""
        if self._is_own(request, job) or request.access.sees_everything(request.client.identity):
            return True
        destination = destination_of_job(job)
        return destination is not None and request.access.allows(request.client, BROWSE, destination)

    def may_read(self, request: Request, job_plan: JobPlan) -> bool:
        return request.access.allows(request.client, READ, parse(job_plan.topic or job_plan.source))

    def _permit_whole(self, request: Request, job_plan: JobPlan) -> None:
        """Raises Refused if values of the messages are hidden from the client: elsewhere they may not be."""
        masks = request.access.masks_of(request.client)
        origins = (dead_letter_headers.origin_of(one.message.envelope.block) for one in job_plan.sample)
        for address in (job_plan.topic or job_plan.source, *job_plan.by_origin, *filter(None, origins)):
            for name in masks.covers(address):
                raise Refused(
                    "not-allowed",
                    f"mask {name} hides values of messages of {address} from you, so you may return them to "
                    "their queue, export and delete them, and not put them into another queue",
                    mask=name,
                )

    def _permit_kept(self, request: Request, right: str, job: Job) -> None:
        """Raises Refused without the right to the destination of the job's messages; if that is not known,
        for all but its owner and administrators."""
        destination = destination_of_job(job)
        if destination is not None:
            request.access.check(request.client, right, destination)
        elif not self._is_own(request, job) and not request.access.sees_everything(request.client.identity):
            raise Refused(
                "not-allowed",
                f"the subscription of job {job.id} was deleted; {job.user} and administrators may see it",
                right=right,
            )

    def _is_own(self, request: Request, job: Job) -> bool:
        return request.access.has_all_rights_of(request.client.identity, job.user)

    def _permit_own(self, request: Request, job: Job) -> None:
        if not self._is_own(request, job) and not request.is_admin:
            raise Refused(
                "not-allowed",
                f"job {job.id} returned messages to many queues; {job.user} and administrators may undo it",
                right=MANAGE,
            )

    def _targets(self, target: str, by_origin: Iterable[str]) -> Iterable[str]:
        if target == ORIGIN:
            return by_origin
        return (target,) if target else ()


def destination_of_job(job: Job) -> Destination | None:
    """The destination whose permissions a job needs. A durable subscription may belong to another topic by
    now, so the topic stored with the job decides; None for jobs stored without one."""
    address = job.source or job.target
    if not address.startswith(DURABLE_PREFIX):
        return parse(address)
    return parse(job.topic) if job.topic else None


def _is_of_subscription(address: str) -> bool:
    """True if it is a queue of dead letters of a durable subscription."""
    return not address.startswith(DURABLE_PREFIX) and topic_of_dead_letters(parse(address)) is not None


def destination_of(broker: Broker, address: str) -> Destination | None:
    """The destination whose permissions an address needs: of a durable or shared subscription, its topic;
    None if it was deleted."""
    if not address.startswith((DURABLE_PREFIX, SHARED_PREFIX)):
        return parse(address)
    named = broker.destinations.named.get(address)
    return parse(named.terms.filter) if named is not None else None
