"""This broker in its cluster: the listener for links, the other brokers, and what is reported about them."""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
import ssl
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple, Protocol

from broker_app.base.internal_errors import EventListeners
from broker_app.base.process.task_supervisor import supervised
from broker_app.base.refused import Refused
from broker_app.base.settings.discovery_uris import MulticastSettings
from broker_app.core.outcome import Event, InterestChanged, SentAgain
from broker_app.core.remote.interest import Want
from broker_app.engine import Engine
from broker_app.features.cluster.configuration.central_reload import CentralReload
from broker_app.features.cluster.configuration.settings import difference, mismatch
from broker_app.features.cluster.discovery.multicast import Multicast
from broker_app.features.cluster.links import frames as f
from broker_app.features.cluster.links.link import Link, stopped
from broker_app.features.cluster.links.members import ClusterMember, Members
from broker_app.features.cluster.links.traffic import Traffic
from broker_app.features.cluster.pages import RemotePages
from broker_app.features.cluster.record.replicated_record import ReplicatedRecord
from broker_app.features.cluster.report import (
    AdoptedReport,
    ClusterReport,
    DiscoveryReport,
    EnhancedReport,
    InterestReport,
    LinkReport,
    LinkState,
)
from broker_app.features.cluster.shared_limits import SharedLimits
from broker_app.features.cluster.unused_queues import UnusedQueues

log = logging.getLogger(__name__)

#: seconds between two looks at messages that wait for a consumer and at small changes of credit, and between
#: two attempts at refused wants
_LOOK_S: Final = 0.05
_TRY_AGAIN_S: Final = 5.0
#: connections that have not proven to be of the cluster
_MOST_STRANGERS: Final = 64


class TlsServer(Protocol):
    """A listener for connections with TLS."""

    def close(self) -> None:
        """Accept no more connections."""

    async def wait_closed(self) -> None:
        """Close the socket."""


class ClusterSettings(NamedTuple):
    """The cluster as it was configured: this broker's `name`, its `address` for other brokers, theirs, the
    secret, the largest message in bytes, settings that must be equal, and where clients connect."""

    name: str
    version: str
    address: str
    brokers: tuple[str, ...]
    secret: str
    most_bytes: int
    must_be_equal: dict[str, str]
    uris: tuple[str, ...]
    web: str
    #: the context of a connection that this broker dials, and the listener for those that it accepts, both by
    #: the certificates as they are then; None without TLS
    tls: Callable[[], ssl.SSLContext] | None = None
    listen_tls: Callable[[socket.socket, Callable[[], Link]], TlsServer] | None = None
    keeper: str = ""
    multicast: MulticastSettings | None = None
    #: of a broker that was taken over: see `RemoteConsumers.repeats_since_ms`
    repeats_since_ms: int | None = None


class Calls(Protocol):
    """Takes messages of applications at other brokers to those here: `Channels`."""

    def linked(self, link: Link) -> None:
        """A broker is linked."""

    def receive(self, link: Link, frame: f.ChannelFrame) -> None:
        """Take a frame. Raises Refused for one that no broker would send."""

    def link_ended(self, link: Link) -> None:
        """A link has ended, with all that waits for an answer over it."""


class Cluster:
    """Owns the links. `listeners` are called with what happens to each: "up", "down" or "refused", the name
    of the other broker, and why."""

    def __init__(self, engine: Engine, settings: ClusterSettings, clients: Callable[[], int]) -> None:
        self._engine = engine
        self.settings = settings
        self._clients = clients
        self._incarnation = secrets.token_hex(8)
        self.members = Members(
            settings.address, settings.brokers, partial(self._make_link, dials=True), settings.tls
        )
        self._multicast = (
            Multicast(
                *(settings.multicast, settings.name, settings.address, self._incarnation, settings.secret),
                found=self._heard,
            )
            if settings.multicast is not None
            else None
        )
        self._strangers: dict[Link, None] = {}
        self._server: asyncio.Server | None = None
        self._tls_server: TlsServer | None = None
        self._looking: asyncio.Task[None] | None = None
        self._traffic = Traffic()
        self._shared_limits = SharedLimits(
            engine.broker, lambda work: asyncio.get_running_loop().call_soon(work)
        )
        self._unused_queues = UnusedQueues(engine)
        engine.broker.cluster_usage.brokers = self._brokers
        engine.broker.cluster_usage.others = self._others
        #: what waits at the other brokers, and questions of theirs
        self.pages = RemotePages(settings.name, self.members, self._others)
        self._refused: dict[str, str] = {}
        #: the journals of members that have failed which this broker serves
        self.adopted: Callable[[], list[AdoptedReport]] = list
        #: the enhanced cluster that this broker is a member of, if it is
        self.enhanced: Callable[[], EnhancedReport | None] = lambda: None
        #: the name of the member of that cluster that is the master of message channels; empty if none is
        self.elected: Callable[[], str] = str
        #: the registry of that cluster, as a way to find brokers
        self.registry: Callable[[], list[DiscoveryReport]] = list
        #: the availability that was sent to all others; None when one has come since
        self._announced: f.Availability | None = None
        #: takes the messages between applications
        self.calls: Calls | None = None
        #: whether this broker refuses new clients
        self.quiesced = False
        self.listeners: EventListeners[[str, str, str]] = EventListeners("the cluster's listeners")
        #: the change record, once the node has started it
        self.record: ReplicatedRecord | None = None
        #: reads the central file again; None without one
        self.central: CentralReload | None = None
        #: the brokers that the settings of this one name
        self._listed = settings.brokers

    # ------------------------------------------------------------------ start and stop

    async def start(self, listener: socket.socket | None) -> None:
        """Accept links on `listener`, if there is one, and connect to the others."""
        interest = self._engine.broker.interest
        interest.watched = True
        self._engine.listeners.add(self._on_events)
        make_link = partial(self._make_link, dials=False)
        if listener is not None and self.settings.listen_tls is not None:
            self._tls_server = self.settings.listen_tls(listener, make_link)
        elif listener is not None:
            self._server = await asyncio.get_running_loop().create_server(make_link, sock=listener)
        self._looking = asyncio.create_task(supervised("messages of other brokers", self._look))
        self.members.start()
        if self._multicast is not None:
            await self._multicast.start()

    async def stop(self) -> None:
        """End all links: what consumers here hold is delivered by others."""
        if self._server is not None:
            self._server.close()
        if self._tls_server is not None:
            self._tls_server.close()
            await self._tls_server.wait_closed()
        if self._multicast is not None:
            await self._multicast.stop()
        if self.central is not None:
            await self.central.stop()
        await self.pages.stop()
        await self.members.stop()
        for link in [*self._strangers, *self.members.links()]:
            link.close(stopped())
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        self._engine.broker.interest.watched = False

    def _heard(self, broker: str, address: str) -> None:
        """Connect to a broker that announces itself."""
        if not self.members.knows(address):
            log.info("broker %s announces itself at %s", broker, address)
        self.members.learn([address], "multicast")

    def _make_link(self, *, dials: bool) -> Link:
        settings = self.settings
        return Link(self._engine, self, settings.secret, settings.most_bytes, dials=dials)

    def connected(self, link: Link) -> None:
        """Note a connection that this broker has accepted; of too many strangers the first has to go."""
        self._strangers[link] = None
        if len(self._strangers) > _MOST_STRANGERS:
            next(iter(self._strangers)).close(Refused("too-many", "too many connections"))

    async def _look(self) -> None:
        """Return what waits too long for a consumer here, send small changes of credit, look which consumers
        of others are quick, and ask again for what was refused."""
        began = time.monotonic()
        while True:
            await asyncio.sleep(_LOOK_S)
            for link in self.members.links():
                link.queues.give_back_old()
                link.queues.send_small_changes()
                link.consumers.read_ahead((link.round_trip_ms or 0) / 1_000)
            if time.monotonic() - began > _TRY_AGAIN_S:
                began = time.monotonic()
                for link in self.members.links():
                    link.queues.try_again()

    def each_second(self) -> None:
        """Send heart-beats and what has changed, and count."""
        now = time.monotonic()
        changes: list[f.Frame] = [*self._shared_limits.changes()]
        changes += self._changed_availability()
        for link in self.members.links():
            link.each_second(now)
            if link.is_up:
                for change in changes:
                    link.send(change)
        self._unused_queues.ask([link for link in self.members.links() if link.is_up])
        for member in self.members.all():
            self._traffic.note(member.address or member.name, *_totals(member), now)

    def _changed_availability(self) -> list[f.Availability]:
        """The availability, if it has changed since it was sent; with the addresses if those have: in a
        cluster of a hundred brokers they are 20 MB a second otherwise."""
        before, now = self._announced, self._availability()
        self._announced = now
        if now == before:
            return []
        if before is not None and now.brokers == before.brokers:
            return [f.Availability(now.quiesced, now.clients, [])]
        return [now]

    # ------------------------------------------------------------------ interest

    def _on_events(self, events: Sequence[Event]) -> None:
        """Send what consumers want now, at once: the messages of the same batch follow it. Report what
        clients have sent again."""
        changed: dict[Want, None] = {}
        sent_again: list[f.SentAgain] = []
        for event in events:
            if isinstance(event, InterestChanged):
                changed[event.want] = None
            elif isinstance(event, SentAgain):
                sent_again.append(f.SentAgain(event.address, event.digest))
        if not (changed or sent_again):
            return
        for link in self.members.links():
            if link.is_up:
                link.queues.refresh(changed)
                for frame in sent_again:
                    link.send(frame)

    # ------------------------------------------------------------------ for links

    def identity(self) -> f.Identity:
        """This broker, as others see it."""
        settings = self.settings
        return f.Identity(
            *(settings.name, self._incarnation, settings.version, settings.address),
            *(list(settings.uris), settings.web, settings.must_be_equal, self.members.addresses()),
        )

    def admit(self, link: Link) -> None:
        """Take a link whose broker is known. Raises Refused for one that is not wanted."""
        broker = link.broker
        assert broker is not None
        settings = self.settings
        found = difference(settings.must_be_equal, broker.settings)
        if found is not None:
            raise mismatch(settings.name, broker.name, found)
        self.members.admit(link, self.identity())
        if settings.repeats_since_ms is not None:
            link.consumers.repeats_since_ms = settings.repeats_since_ms
        self._strangers.pop(link, None)
        self._refused.pop(broker.name, None)
        self.listeners("up", broker.name, "")
        self.members.learn(broker.brokers, "broker")
        self._announced = None  # it may have changed in the meantime, and change back
        link.send(self._availability())
        for use in self._shared_limits.all():
            link.send(use)
        if self.record is not None:
            self.record.propagation.connected(broker.name, broker.address)
        if self.calls is not None:
            self.calls.linked(link)

    def ended(self, link: Link, reason: Refused) -> None:
        """Note the end of a link."""
        self._strangers.pop(link, None)
        was_linked = any(member.link is link for member in self.members.all())
        self.members.ended(link, reason)
        self._unused_queues.ended(link)
        self.pages.ended(link)
        if self.central is not None:
            self.central.ended(link)
        if self.calls is not None:
            self.calls.link_ended(link)
        name = link.broker.name if link.broker is not None else ""
        if was_linked:
            self._shared_limits.forget(name)
            if self.record is not None:
                self.record.propagation.disconnected(name)
            self.listeners("down", name, reason.detail)
        elif (
            name
            and reason.code not in ("duplicate", "own-address")
            and (self._refused.get(name) != reason.detail)
        ):
            if len(self._refused) >= f.MOST_BROKERS:
                del self._refused[next(iter(self._refused))]
            self._refused[name] = reason.detail
            self.listeners("refused", name, reason.detail)

    def receive_record(self, link: Link, message: bytes) -> None:
        """Take a message about the change record."""
        assert link.broker is not None
        if self.record is not None and self.members.link_to(link.broker.name) is link:
            self.record.receive(link.broker.name, message)

    def send_record(self, broker: str, message: bytes) -> None:
        """Send a message about the change record to a broker that is linked."""
        link = self.members.link_to(broker)
        if link is not None:
            link.send(f.Record(message))

    def receive_use(self, link: Link, frame: f.SharedUse) -> None:
        """Count what another broker uses of shared limits."""
        if link.broker is not None:
            self._shared_limits.receive(link.broker.name, frame)

    def receive_unused(self, link: Link, frame: f.AskUnused | f.Unused) -> None:
        """Answer which queues are not used here, or take the answer of another broker."""
        if isinstance(frame, f.AskUnused):
            self._unused_queues.asked(link, frame)
        else:
            self._unused_queues.answered(link, frame)

    def receive_reload(self, link: Link, frame: f.Reload | f.Reloaded) -> None:
        """Carry out the order of another broker to read the central file, or take the answer to one."""
        if self.central is None:
            if isinstance(frame, f.Reload):
                link.send(f.Reloaded(frame.number, error="it has no central file (cluster_url)"))
        elif isinstance(frame, f.Reload):
            self.central.asked(link, frame)
        else:
            self.central.answered(link, frame)

    def list_brokers(self, addresses: tuple[str, ...]) -> None:
        """Connect to the brokers of another list, and to those that only the former one has no more. Their
        links, if they are up, stay."""
        self.members.relist(self._listed, addresses)
        self._listed = addresses

    def receive_page(self, link: Link, frame: f.AskPage | f.Page) -> None:
        """Take a question about messages that wait here, or the answer to one."""
        self.pages.receive(link, frame)

    def receive_channel(self, link: Link, frame: f.ChannelFrame) -> None:
        """Take what an application at another broker sends to one here."""
        if self.calls is not None:
            self.calls.receive(link, frame)

    def availability(self, link: Link, frame: f.Availability) -> None:
        """Take what another broker says about itself."""
        self.members.learn(frame.brokers, "broker")

    # ------------------------------------------------------------------ sites of message channels

    @property
    def master(self) -> str:
        """The name of the broker that keeps the change record, or without one of the member that an enhanced
        cluster has elected; empty if there is none, or until it is known."""
        settings = self.settings
        keeper = self.record.propagation.keeper if self.record is not None else settings.keeper
        if not keeper:
            elected = self.elected()
            is_known = elected == settings.name or self.members.named(elected) is not None
            return elected if is_known else ""
        if keeper == settings.address:
            return settings.name
        return next((one.name for one in self.members.all() if one.address == keeper), keeper)

    # ------------------------------------------------------------------ reports

    def _others(self) -> list[str]:
        """The names of all other brokers; the address of one whose name is not known yet."""
        return [member.name or member.address for member in self.members.all()]

    def set_quiesced(self, quiesced: bool) -> None:
        """Report to the other brokers whether this one refuses new clients."""
        self.quiesced = quiesced
        for link in self.members.links():
            link.send(self._availability())

    def _availability(self) -> f.Availability:
        return f.Availability(self.quiesced, self._clients(), self.members.addresses())

    def clients(self) -> dict[str, int]:
        """The number of clients of each other broker that is linked, and takes new ones."""
        links = self.members.links()
        takers = (link for link in links if link.broker and link.broker.client_uris() and not link.quiesced)
        return {link.broker.name: link.clients for link in takers if link.broker}

    @property
    def client_uris(self) -> tuple[str, ...]:
        """The addresses for clients of this broker."""
        return self.settings.uris

    def uris(self) -> dict[str, tuple[str, ...]]:
        """The addresses for clients of the other brokers that are linked."""
        known = (link.broker for link in self.members.links() if link.broker is not None)
        return {broker.name: tuple(uris) for broker in known if (uris := broker.client_uris())}

    def _brokers(self) -> int:
        """The number of brokers that have clients of their own: adopted ones have none."""
        return 1 + sum(link.broker is not None and bool(link.broker.uris) for link in self.members.links())

    def report(self, *, interest: bool = True) -> ClusterReport:
        """The cluster as this broker sees it; without `interest`, which may be much, at a cost that does not
        depend on consumers."""
        settings = self.settings
        record = self.record
        propagation = record.propagation if record is not None else None
        refusal = propagation.refusal if propagation is not None else None
        return ClusterReport(
            broker=settings.name,
            address=settings.address,
            keeper=propagation.keeper if propagation is not None else settings.keeper,
            keeper_is_here=propagation is not None and propagation.is_keeper,
            keeper_state=refusal.detail if refusal is not None else "",
            record_entries=len(record.record) if record is not None else 0,
            record_digest=f"{record.record.digest:014x}" if record is not None else "",
            quiesced=self.quiesced,
            adopted=self.adopted(),
            enhanced=self.enhanced(),
            discovery=self._discovery(),
            links=[self._link_report(member) for member in self.members.all()],
            interest=self._interest() if interest else [],
        )

    def _discovery(self) -> list[DiscoveryReport]:
        """The ways in which brokers are found; that of the settings needs nothing, and is not among them."""
        multicast = self._multicast.report() if self._multicast is not None else []
        return [*multicast, *self.registry()]

    def _interest(self) -> list[InterestReport]:
        """The interest of the consumers of all brokers."""
        interest = self._engine.broker.interest
        own = [
            InterestReport(
                broker=self.settings.name,
                address=want.address,
                selector=want.selector,
                consumers=interest.consumers(want),
                credit=interest.credit(want),
            )
            for want in interest.all()
        ]
        return own + [one for link in self.members.links() for one in link.consumers.interest()]

    def _link_report(self, member: ClusterMember) -> LinkReport:
        link, identity = member.link, member.identity
        sent, received, returned = _totals(member)
        sent_rate, received_rate = self._traffic.rates(member.address or member.name)
        return LinkReport(
            broker=member.name or member.address,
            address=member.address,
            state=_state(member),
            found_by=member.found_by,
            reason="" if link is not None else member.reason.detail,
            since=member.since,
            version=identity.version if identity is not None else "",
            tls=link is not None and link.is_tls,
            quiesced=link is not None and link.quiesced,
            sent=sent,
            received=received,
            returned=returned,
            sent_rate=sent_rate,
            received_rate=received_rate,
            unsettled_there=link.consumers.unsettled if link is not None else 0,
            unsettled_here=link.queues.unsettled if link is not None else 0,
            round_trip_ms=link.round_trip_ms if link is not None else None,
            stomp=_first_stomp(identity),
            web=identity.client_web() if identity is not None else "",
        )


def _totals(member: ClusterMember) -> tuple[int, int, int]:
    """Messages sent, received and returned since the start."""
    link = member.link
    if link is None:
        return member.sent, member.received, member.returned
    return (
        member.sent + link.consumers.sent,
        member.received + link.queues.received,
        member.returned + link.queues.returned,
    )


def _state(member: ClusterMember) -> LinkState:
    if member.link is not None:
        return "up"
    if member.is_stopped:
        return "stopped"
    return "refused" if member.is_refused else "connecting"


def _first_stomp(identity: f.Identity | None) -> str:
    """The address for clients with STOMP over TCP; empty if that is not known."""
    uris = identity.client_uris() if identity is not None else ()
    return next((uri for uri in uris if uri.startswith("stomp")), "")
