"""What rights jobs need: to where they take messages from, and to where they put them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from broker_app.core.broker import Broker
from broker_app.core.commands import ORIGIN
from broker_app.core.destination import Destination, parse
from broker_app.core.named import DURABLE_PREFIX
from broker_app.jobs import plan
from broker_app.jobs.job import Job
from broker_app.jobs.plan import Plan
from broker_app.net.rest.refusals import Refusal
from broker_app.net.rest.requests import Request
from broker_app.rules.event import BROWSE, MANAGE, READ, SEND

#: what is needed at the source; whoever takes messages away manages it, whoever copies them reads them
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
    """Asks for the rights of whoever makes a request. What durable subscriptions keep is their topic's."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def permit(self, request: Request, right: str, address: str) -> None:
        """Raises Refused without the right to an address."""
        destination = destination_of(self._broker, address)
        if destination is not None:
            request.access.check(request.client, right, destination)

    def permit_source(self, request: Request, op: str, source: str, *, by_body: bool) -> None:
        """Raises Refused without what a plan needs; `by_body` says that bodies are searched."""
        if op in _AT_SOURCE:  # what is none is refused by the plan
            self.permit(request, _AT_SOURCE[op], source)
        if by_body:
            self.permit(request, READ, source)

    def permit_plan(self, request: Request, drawn: Plan) -> None:
        """Raises Refused when the client may not do all that a plan would."""
        self.permit_source(request, drawn.wish.op, drawn.source, by_body=False)
        for target in self._targets(drawn.target, drawn.by_origin):
            self.permit(request, SEND, target)

    def permit_undo(self, request: Request, job: Job) -> None:
        """Raises Refused when the client may not bring back what a job moved."""
        self.permit_look(request, job)
        if not job.can_undo:
            return  # which the office says
        if job.target == ORIGIN:
            # Where its messages went is known by their dead letters alone, which are gone.
            self._permit_own(request, job)
        else:
            self.permit_source(request, plan.UNDO, job.target, by_body=False)
        self.permit(request, SEND, job.source)

    def permit_cancel(self, request: Request, job: Job) -> None:
        """Raises Refused for who neither began the job nor may manage where it works."""
        if not self._is_own(request, job):
            self.permit(request, MANAGE, job.source or job.target)

    def permit_export(self, request: Request, job: Job) -> None:
        self.permit(request, READ, job.source)

    def permit_look(self, request: Request, job: Job) -> None:
        if not self._is_own(request, job):
            self.permit(request, BROWSE, job.source or job.target)

    def shows(self, request: Request, job: Job) -> bool:
        """Whether a list may hold the job."""
        if self._is_own(request, job) or request.access.is_unbound(request.client.identity):
            return True
        destination = destination_of(self._broker, job.source or job.target)
        return destination is not None and request.access.allows(request.client, BROWSE, destination)

    def may_read(self, request: Request, address: str) -> bool:
        destination = destination_of(self._broker, address)
        return destination is None or request.access.allows(request.client, READ, destination)

    def _is_own(self, request: Request, job: Job) -> bool:
        return request.access.is_wholly(request.client.identity, job.user)

    def _permit_own(self, request: Request, job: Job) -> None:
        if not self._is_own(request, job) and not request.access.is_admin(request.client.identity):
            raise Refusal(
                "not-allowed",
                f"job {job.id} returned messages to many queues; {job.user} and administrators may undo it",
                right=MANAGE,
            )

    def _targets(self, target: str, by_origin: Iterable[str]) -> Iterable[str]:
        if target == ORIGIN:
            return by_origin
        return (target,) if target else ()


def destination_of(broker: Broker, address: str) -> Destination | None:
    """Whose rights an address is under: what is kept for a durable subscription is under those of its topic.
    None for a durable subscription that is gone."""
    if not address.startswith(DURABLE_PREFIX):
        return parse(address)
    named = broker.named.get(address)
    return parse(named.terms.filter) if named is not None else None
