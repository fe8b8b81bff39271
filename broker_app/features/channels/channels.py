"""Message channels of this site: what its applications send to sites, and what its handlers are given.

application ──► Channels ──(own site)──► Handlers ──► a handler's connection, or a function
                    └──link──► Channels of the other site ──► Handlers there
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from functools import partial

from broker_app.base.refused import Refused
from broker_app.core.model import Peer, Subscription
from broker_app.engine import Engine
from broker_app.features.channels.content import CallOutcome, ChannelContent, checked
from broker_app.features.channels.handlers import REQUESTS, Call, Handler, Handlers
from broker_app.features.channels.publisher import ChannelPublisher, ClientHandler
from broker_app.features.channels.report import ChannelReport, SiteReport
from broker_app.features.channels.requests import MAX_TIMEOUT_MS, Answered, Request, Requests
from broker_app.features.channels.sites import Sites
from broker_app.features.channels.statuses import (
    BERKELEY_DB,
    BUFFER_SMALL,
    INVALID,
    KEYEMPTY,
    NOSERVER,
    OK,
    REP_UNAVAIL,
)
from broker_app.features.cluster.links import frames as f
from broker_app.features.cluster.links.link import Link

#: reasons why something is dropped, besides `noserver`: an answer after its time, and a broker that
#: has too much to do
LATE, BUSY = "late", "busy"
#: the part of a new time in the average of round trips
_NEW = 0.1


class _Counts:
    """The counts of what was sent to a site, and of what has come from it."""

    def __init__(self) -> None:
        self.sent = self.received = 0
        self.dropped: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self.round_trip_s: float | None = None
        #: the number of handlers there; None while it is not known
        self.handlers: int | None = None

    def answered(self, status: str, seconds: float) -> None:
        """Count the end of a request."""
        if status != OK:
            self.failed[status] += 1
            return
        former = self.round_trip_s
        self.round_trip_s = seconds if former is None else former + _NEW * (seconds - former)


class Channels:
    """Owns the handlers of this site, and the requests of its clients; `sites` has where others are."""

    def __init__(self, engine: Engine, site: str) -> None:
        self._engine = engine
        self.sites = Sites(site)
        self.publisher = ChannelPublisher(engine)
        self._handlers = Handlers()
        self._clients: dict[Subscription, ClientHandler] = {}
        #: the names of the functions that are handlers
        self.functions: list[str] = []
        self._requests = Requests(self._ended)
        self._counts: defaultdict[str, _Counts] = defaultdict(_Counts)
        engine.broker.subscriptions.on_begin.append(self._subscribed)
        engine.broker.subscriptions.on_end.append(self._unsubscribed)

    def stop(self) -> None:
        """Forget what waits: the broker stops."""
        self._requests.stop()
        self._handlers.stop()

    # ------------------------------------------------------------------ from applications at this site

    def handlers(self) -> tuple[int, int]:
        """The number of handlers at this site, and at all others that are linked."""
        return len(self._handlers), sum(counts.handlers or 0 for counts in self._counts.values())

    def check(self, site: str) -> None:
        """Raise Refused if nothing can be sent to a site now."""
        self.sites.link_to(self.sites.name_of(site))

    def send(self, site: str, content: ChannelContent) -> None:
        """Hand a message to a handler, or to the link. Raises Refused."""
        name = self.sites.name_of(site)
        link = self.sites.link_to(name)
        if link is None:
            self._take_message(name, content)
        else:
            self._send_call(link, f.ChannelCall(0, 0, False, content.lengths, content.body))
        self._counts[name].sent += 1

    def request(
        self,
        site: str,
        content: ChannelContent,
        timeout_ms: int,
        answered: Answered,
        *,
        multiple: bool = False,
    ) -> None:
        """Send a request; `answered` is called once with its answer, perhaps at once."""
        try:
            name = self.sites.name_of(site)
            link = self.sites.link_to(name)
            number = self._requests.begin(name, link, timeout_ms, answered)
        except Refused as refused:
            answered(CallOutcome(refused.code, reason=refused.detail))
            return
        self._counts[name].sent += 1
        try:
            if link is None:
                answered_here = partial(self._receive_answer, None, name, number)
                self._take_request(name, content, timeout_ms, answered_here, multiple=multiple)
            else:
                call = f.ChannelCall(number, timeout_ms, multiple, content.lengths, content.body)
                self._send_call(link, call)
        except Refused as refused:
            reason = f"site {name}: {refused.detail}"
            self._requests.answer(number, link, CallOutcome(refused.code, reason=reason))

    def answer(self, peer: Peer, id: str, status: str, content: ChannelContent) -> None:
        """Take the answer of a handler. Raises Refused."""
        if status not in (OK, KEYEMPTY):
            raise Refused(INVALID, f"header channel-status is {status[:40]!r}; it must be ok or keyempty")
        call = self._handlers.find(peer, id)
        if call is None:
            self._counts[self.sites.own].dropped[LATE] += 1
        elif status == KEYEMPTY:
            self._handlers.answer(id, CallOutcome(KEYEMPTY, reason="the handler returned without an answer"))
        elif content.number > 1 and not call.multiple:
            reason = f"the answer has {content.number} parts, and one was asked for"
            self._handlers.answer(id, CallOutcome(BUFFER_SMALL, reason=reason))
            raise Refused(INVALID, f"{reason}: the request needs multiple:true for that")
        else:
            self._handlers.answer(id, CallOutcome(OK, content))

    def _ended(self, request: Request, answer: CallOutcome) -> None:
        self._counts[request.site].answered(answer.status, time.monotonic() - request.since)
        request.answered(answer)

    def _send_call(self, link: Link, call: f.ChannelCall) -> None:
        if not link.send_call(call):
            raise Refused(REP_UNAVAIL, "busy: too much waits to be sent to it")

    # ------------------------------------------------------------------ to handlers at this site

    def _take_message(self, site: str, content: ChannelContent) -> None:
        """Hand a message from a site to a handler here, or count it as dropped."""
        counts = self._counts[site]
        counts.received += 1
        try:
            self._handlers.next().call("", site, content, multiple=False)
        except Refused as refused:
            counts.dropped[NOSERVER if refused.code == NOSERVER else BUSY] += 1

    def _take_request(
        self, site: str, content: ChannelContent, timeout_ms: int, answered: Answered, *, multiple: bool
    ) -> None:
        """Hand a request from a site to a handler here. Raises Refused."""
        self._counts[site].received += 1
        handler, id = self._handlers.begin(timeout_ms, answered, multiple=multiple)
        handler.call(id, site, content, multiple=multiple)

    def end_call(self, id: str, answer: CallOutcome) -> None:
        """Take the answer of a function."""
        if not self._handlers.answer(id, answer):
            self._counts[self.sites.own].dropped[LATE] += 1

    def _subscribed(self, subscription: Subscription) -> None:
        if subscription.address == REQUESTS and subscription.queue.named is None:
            handler = self._clients[subscription] = ClientHandler(subscription, self.publisher)
            self.add(handler)

    def _unsubscribed(self, subscription: Subscription) -> None:
        handler = self._clients.pop(subscription, None)
        if handler is not None:
            self.remove(handler)

    def add(self, handler: Handler) -> None:
        """Add a handler at this site."""
        self._handlers.add(handler)
        self._send_handlers()

    def remove(self, handler: Handler) -> None:
        """Remove a handler; the requests that it works on fail."""
        left = self._handlers.remove(handler)
        self._send_handlers()
        if left:  # the core may be in the middle of a change
            asyncio.get_running_loop().call_soon(_fail, left)

    # ------------------------------------------------------------------ from other sites

    def linked(self, link: Link) -> None:
        """Send a site that is linked now how many handlers are here."""
        link.send(f.ChannelHandlers(len(self._handlers)))

    def _send_handlers(self) -> None:
        for member in self.sites.brokers():
            if member.link is not None:
                self.linked(member.link)

    def receive(self, link: Link, frame: f.ChannelFrame) -> None:
        """Take a frame of another site. Raises Refused for one that no broker would send."""
        assert link.broker is not None
        site = link.broker.name
        if isinstance(frame, f.ChannelHandlers):
            self._counts[site].handlers = frame.number
            return
        try:
            content = checked(frame.body, frame.lengths)
        except Refused as refused:
            raise Refused("protocol-error", refused.detail) from None
        if isinstance(frame, f.ChannelAnswer):
            if frame.status not in BERKELEY_DB:
                raise Refused("protocol-error", f"an answer has the status {frame.status[:40]!r}")
            answer = CallOutcome(frame.status, content, frame.reason[:1_000])
            self._receive_answer(link, site, frame.number, answer)
        elif frame.number:
            self._receive_request(link, site, frame, content)
        elif self._engine.full:
            self._counts[site].dropped[BUSY] += 1
        else:
            self._take_message(site, content)

    def _receive_request(self, link: Link, site: str, frame: f.ChannelCall, content: ChannelContent) -> None:
        timeout_ms = max(1, min(frame.timeout_ms, MAX_TIMEOUT_MS))
        answered = partial(_send_answer, link, frame.number)
        try:
            if self._engine.full:
                self._counts[site].dropped[BUSY] += 1
                raise Refused(REP_UNAVAIL, "busy: the broker there has too much to do")
            self._take_request(site, content, timeout_ms, answered, multiple=frame.multiple)
        except Refused as refused:
            answered(CallOutcome(refused.code, reason=f"site {self.sites.own}: {refused.detail}"))

    def _receive_answer(self, link: Link | None, site: str, number: int, answer: CallOutcome) -> None:
        if not self._requests.answer(number, link, answer):
            self._counts[site].dropped[LATE] += 1

    def link_ended(self, link: Link) -> None:
        """Fail what waits for an answer over a link that has ended."""
        if link.broker is not None:
            self._counts[link.broker.name].handlers = None
            reason = f"the link to site {link.broker.name} has ended: the outcome is unknown"
            self._requests.end_all_of(link, CallOutcome(REP_UNAVAIL, reason=reason))

    # ------------------------------------------------------------------ report

    def report(self) -> ChannelReport:
        """All sites, as this one sees them."""
        master = self.sites.master
        in_flight = Counter(self._requests.in_flight())
        linked = {self.sites.own: True} | {one.name: one.link is not None for one in self.sites.brokers()}
        return ChannelReport(
            site=self.sites.own,
            master=master,
            sites=[
                self._report_of(site, self._counts[site], master, in_flight[site], linked=is_linked)
                for site, is_linked in sorted(linked.items())
            ],
        )

    def _report_of(
        self, site: str, counts: _Counts, master: str, in_flight: int, *, linked: bool
    ) -> SiteReport:
        trip_s = counts.round_trip_s
        return SiteReport(
            name=site,
            is_here=site == self.sites.own,
            is_master=site == master,
            linked=linked,
            handlers=len(self._handlers) if site == self.sites.own else counts.handlers,
            functions=self.functions if site == self.sites.own else [],
            in_flight=in_flight,
            sent=counts.sent,
            received=counts.received,
            dropped=dict(counts.dropped),
            failed=dict(counts.failed),
            round_trip_ms=round(trip_s * 1000, 3) if trip_s is not None else None,
        )


def _fail(calls: list[Call]) -> None:
    """Answer requests whose handler has left."""
    for call in calls:
        call.answered(
            CallOutcome(
                REP_UNAVAIL, reason="the handler has ended, or its connection: the outcome is unknown"
            )
        )


def _send_answer(link: Link, number: int, answer: CallOutcome) -> None:
    """Send an answer over a link, or that it cannot be sent."""
    content = answer.content
    frame = f.ChannelAnswer(number, answer.status, content.lengths, content.body, answer.reason)
    if not link.send_call(frame):
        reason = "busy: too much waits to be sent back, so the answer was dropped"
        link.send(f.ChannelAnswer(number, REP_UNAVAIL, None, b"", reason))
