"""Explanations of where a message is, and why: by this broker, or the one of its cluster that owns it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import NamedTuple

from broker_app.base.refused import Refused
from broker_app.core.broker import Broker
from broker_app.core.destination import is_reserved, parse
from broker_app.core.inspection.why import Reason, why
from broker_app.core.message import Envelope, Message
from broker_app.features.bridge.pipe_reports import Forwarding
from broker_app.features.cluster.message_reasons import (
    MOST_ID,
    MessageReason,
    MessageReasons,
    ReasonsQuestion,
)
from broker_app.features.cluster.pages import RemotePages
from broker_app.features.masks.user_masks import Replacements
from broker_app.net.http.replies import Reply, json_reply
from broker_app.net.http.requests import Request
from broker_app.net.rest.destinations.propagation import LOCAL, propagation_of
from broker_app.net.rest.features.bridge_reason import with_bridge
from broker_app.net.rest.features.cluster_reason import with_cluster
from broker_app.net.rest.messages import message_json
from broker_app.net.rest.messages.browse import Shown
from broker_app.net.rest.messages.browse_query import is_of_cluster
from broker_app.net.rest.messages.single.message_finder import MessageFinder
from broker_app.net.rest.messages.single.single_message import permitted_queue
from broker_app.net.rest.node.cluster import ReadCluster
from broker_app.rules.event import BROWSE

_QUEUES = "/queue/"


class Explainer:
    """Explains where the messages of one broker are, to its clients and to other brokers. It knows no rights.
    Messages wait for bridges if there is `forwarding`."""

    def __init__(
        self,
        broker: Broker,
        finder: MessageFinder,
        cluster: ReadCluster,
        forwarding: Forwarding | None = None,
    ) -> None:
        self._broker = broker
        self._finder = finder
        self._cluster = cluster
        self._forwarding = forwarding

    async def explain(self, question: ReasonsQuestion) -> MessageReasons:
        """The reasons for a message that is at this broker. Raises Refused if there is no such message."""
        address = question.address or await self._queue_of(question.id)
        return await self._finder.find(address, question.id, self._explained)

    async def explain_own(self, question: ReasonsQuestion) -> MessageReasons:
        """The reasons for a message that this broker owns, for the other ones. Raises Refused without it."""
        found = await self.explain(question)
        if found.owner:
            raise Refused("not-found", f"the message {question.id!r} is here for a consumer alone")
        return found

    async def _queue_of(self, message_id: str) -> str:
        queues = [one for one in self._finder.queues() if not is_reserved(parse(one).name)]
        found = await self._finder.queue_among(queues, message_id)
        if found is None:
            raise Refused("not-found", f"there is no message {message_id[:80]!r} in any queue")
        return found

    def _explained(self, address: str, row: Shown) -> MessageReasons:
        message = row.message
        reasons = why(self._broker, address, message, time.time_ns() // 1_000_000)
        if self._forwarding is not None:
            reasons = with_bridge(reasons, address, self._forwarding)
        queue = self._broker.destinations.queues.get(address)
        is_local = queue is not None and propagation_of(self._broker, queue) == LOCAL
        reasons = with_cluster(reasons, address, self._cluster(), is_local=is_local)
        return MessageReasons(
            address=address,
            state=row.state,
            sent_to=message.envelope.address,
            block=message.envelope.block,
            reasons=[_with_times(reason) for reason in reasons],
            owner=message.origin.broker if message.origin is not None else "",
        )


class _Found(NamedTuple):
    """A message, and the `broker` that owns it; None in no cluster."""

    broker: str | None
    reasons: MessageReasons


class ExplanationEndpoints:
    """`/messages/{id}/why` and `/messages/{id}/queue`. In a cluster, whose brokers `others` are, what this
    broker does not have is asked of them."""

    def __init__(
        self,
        explainer: Explainer,
        finder: MessageFinder,
        others: Callable[[], RemotePages | None],
        cluster: ReadCluster,
    ) -> None:
        self._explainer = explainer
        self._finder = finder
        self._others = others
        self._cluster = cluster

    async def why(self, request: Request) -> Reply:
        """GET messages/{id}/why"""
        query = request.query(("queue", "scope"))
        address, is_asked_everywhere = permitted_queue(request, BROWSE, query), is_of_cluster(query)
        question = ReasonsQuestion(id=request.name, address=address)
        try:
            found = await self._here(question)
        except Refused as refusal:
            if refusal.code != "not-found" or not is_asked_everywhere:
                raise
            found = await self._elsewhere(request, question, refusal.detail)
        return json_reply(
            {"id": request.name, **_as_seen(request, address, found.reasons), **_at(found.broker)}
        )

    async def queue(self, request: Request) -> Reply:
        """GET messages/{id}/queue: where it is, of the queues that the client may browse"""
        request.query()
        queues = self._finder.queues()
        visible = await request.access.visible(request.client, queues)
        address = await self._finder.queue_among([one for one in queues if one in visible], request.name)
        if address is not None:
            here = await self._here(ReasonsQuestion(id=request.name, address=address))
            return json_reply({"queue": address.removeprefix(_QUEUES), **_at(here.broker)})
        absent = (
            f"no queue that you may browse has a message {request.name[:80]!r}: it was consumed, deleted or "
            "moved"
        )
        found = await self._elsewhere(request, ReasonsQuestion(id=request.name), absent)
        return json_reply({"queue": found.reasons.address.removeprefix(_QUEUES), **_at(found.broker)})

    async def _here(self, question: ReasonsQuestion) -> _Found:
        """The message at this broker, which it owns, or has for a consumer. Raises Refused without it."""
        found, others = await self._explainer.explain(question), self._others()
        return _Found((found.owner or others.name) if others is not None else None, found)

    async def _elsewhere(self, request: Request, question: ReasonsQuestion, absent: str) -> _Found:
        """The message at the first of the other brokers that has it in a queue that the client may browse.
        Raises Refused with `absent` and the brokers that were asked, and those that could not be."""
        others = self._others()
        if others is None or not (question.id.isascii() and len(question.id) <= MOST_ID):
            raise Refused("not-found", absent)
        have_not: list[str] = []
        silent = self._not_linked()
        asked = [asyncio.ensure_future(_ask(others, name, question)) for name in others.linked()]
        try:
            for answer in asyncio.as_completed(asked):
                name, found = await answer
                if isinstance(found, Refused):
                    (have_not if found.code == "not-found" else silent).append(name)
                elif request.access.allows(request.client, BROWSE, parse(found.address)):
                    return _Found(name, found)
                else:
                    have_not.append(name)
        finally:
            for one in asked:
                one.cancel()
        raise Refused("not-found", absent + _asked(have_not, silent))

    def _not_linked(self) -> list[str]:
        """The brokers that cannot be asked now; what a member has taken over is asked of that."""
        report = self._cluster()
        links = report.expected_links() if report is not None else []
        return [link.broker for link in links if link.state != "up"]


async def _ask(
    others: RemotePages, broker: str, question: ReasonsQuestion
) -> tuple[str, MessageReasons | Refused]:
    """The answer of another broker, with its name."""
    try:
        return broker, await others.ask_reasons(broker, question)
    except Refused as refusal:
        return broker, refusal


def _asked(have_not: list[str], silent: list[str]) -> str:
    """The other brokers that do not have a message, and those to ask directly."""
    said = f"; brokers that were asked, too: {', '.join(sorted(have_not))}" if have_not else ""
    if silent:
        said += f"; brokers that cannot be asked from here now: {', '.join(sorted(silent))}; ask there"
    return said


def _at(broker: str | None) -> dict[str, str]:
    return {"broker": broker} if broker is not None else {}


def _as_seen(request: Request, address: str, found: MessageReasons) -> dict[str, object]:
    """The state of a message and the reasons for it, without what masks hide from the client."""
    message = Message(Envelope(found.sent_to, found.block), b"", 0, 0, recorded=False)
    shown = request.access.masks_of(request.client).shown(address, message)
    without = Replacements.of(message, shown)
    reasons = [
        {
            "code": reason.code,
            "sentence": without.text(reason.sentence),
            "facts": without.value(reason.facts),
        }
        for reason in found.reasons
    ]
    return {"state": found.state, "reasons": reasons}


def _with_times(reason: Reason) -> MessageReason:
    """A reason with its times as RFC 3339."""
    facts = {
        name.removesuffix("_ms"): message_json.rfc3339(value).decode() if name.endswith("_ms") else value
        for name, value in reason.facts.items()
    }
    return MessageReason(code=reason.code, sentence=reason.sentence, facts=facts)
