"""System topics below `$mom`: statistics and events, published once a second.

Without subscribers nothing is rendered, and most events are not recorded. Events are CloudEvents in JSON;
docs/protocol.md lists them. A subscriber with `snapshot:true` receives the present state at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from typing import TypedDict, assert_never

from broker_app.base.reply_types import Facts
from broker_app.base.system_topics import (
    ALERT,
    BRIDGE,
    CALLBACK,
    CLOSED,
    CLUSTER,
    CONSUMER,
    CREATED,
    DEAD,
    DELETED,
    DESTINATIONS,
    EVENT,
    FILES,
    FULL,
    JOB,
    MIRROR,
    NODE,
    OPENED,
    SLOW,
    STATS,
    STATS_OF,
    SYSTEM,
    type_of,
)
from broker_app.base.times import rfc3339
from broker_app.core.broker import Broker
from broker_app.core.destination import MAX_NAME, is_system_topic, parse
from broker_app.core.model import Subscription
from broker_app.core.outcome import (
    Arrived,
    ConsumerJoined,
    ConsumerLeft,
    ConsumerSlow,
    DeadLetter,
    DestinationCreated,
    DestinationDeleted,
    DestinationFull,
    Event,
    InterestChanged,
    MessagesEnded,
    SentAgain,
    SnapshotWanted,
    SubscriptionChanged,
)
from broker_app.core.topics.topic import matches
from broker_app.telemetry.alerts.alert import FIRING
from broker_app.telemetry.bridge_changes import bridge_changes, brief
from broker_app.telemetry.callback_changes import callback_changes
from broker_app.telemetry.cluster_changes import cluster_changes, without_name
from broker_app.telemetry.destination_stats_feed import DestinationStatsFeed
from broker_app.telemetry.mirror_changes import MirrorChanges
from broker_app.telemetry.statistics import Statistics, consumer
from broker_app.telemetry.system_messages import SystemMessage, SystemMessages

#: events kept for the next second; of further ones only the number is published
MAX_EVENTS = 5_000
#: seconds; a job that ended so recently is reported even if its start was not
JUST_ENDED_S = 5.0
#: items of one kind in a snapshot
MAX_ITEMS = 1_000

#: how a topic about a name spells the wildcards in it
WILDCARDS = {"*": "%2A", ">": "%3E", "#": "%23"}


#: the members of a CloudEvent; none are left of one that is not published
_Event = dict[str, object]


class _DeadLetters(TypedDict):
    """The messages of a destination that died for a reason since the last second."""

    destination: str
    reason: str
    messages: int
    last_id: str
    last_detail: str


class SystemTopics:
    """`name` is the broker's, `boot` distinguishes this process from former ones; `connections` yields the
    open connections, `bridges` and `callbacks` the status of these, `jobs` the progress of jobs, also of
    finished ones; `mirrors` returns the status of the brokers that share the journal, None if it is not
    shared, `cluster` that of its cluster, None without one; `clock` is seconds since 1970."""

    def __init__(
        self,
        broker: Broker,
        statistics: Statistics,
        messages: SystemMessages,
        *,
        name: str,
        boot: str,
        connections: Callable[[], Iterable[Facts]],
        bridges: Callable[[], Iterable[Facts]],
        callbacks: Callable[[], Iterable[Facts]],
        jobs: Callable[[], Iterable[Facts]],
        mirrors: Callable[[], Facts | None],
        cluster: Callable[[], Facts | None],
        alerts: Callable[[], Iterable[Facts]],
        clock: Callable[[], float],
    ) -> None:
        self._broker = broker
        self._statistics = statistics
        self._messages = messages
        self._source = f"mom://{name}"
        self._boot = boot
        self._connections = connections
        self._bridge_changes = bridge_changes(bridges)
        self._callback_changes = callback_changes(callbacks)
        self._mirror_changes = MirrorChanges(mirrors)
        self._cluster_changes = cluster_changes(cluster)
        self._destination_changes = DestinationStatsFeed(statistics)
        self._jobs = jobs
        self._alerts = alerts
        #: by id: the last report of each job
        self._of_jobs: dict[str, Facts] = {}
        self._clock = clock
        self._sequence = 0
        #: (topic, event) for the next second
        self._events: list[tuple[str, _Event]] = []
        self._missed = 0
        self._joined: dict[Subscription, _Event] = {}
        self._dead: dict[tuple[str, str], _DeadLetters] = {}
        self._full: set[str] = set()
        self._slow: dict[Subscription, Facts] = {}

    @property
    def has_subscribers(self) -> bool:
        """True if there are subscribers."""
        return self._broker.destinations.topics.reaches(SYSTEM)

    # ------------------------------------------------------------------ what is heard

    def on_events(self, events: Sequence[Event]) -> None:
        """Facts of one batch of the core."""
        for fact in events:
            match fact:
                case Arrived() | MessagesEnded() | InterestChanged() | SentAgain() | SubscriptionChanged():
                    pass  # there is no event for each message, and none for other brokers
                case DestinationCreated(address):
                    self._note(CREATED, address, {"destination": address})
                case DestinationDeleted(address, reason):
                    about = {"destination": address, "reason": reason}
                    self._note(DELETED, address, about)
                case DestinationFull(address, detail):
                    self._on_full(address, detail)
                case ConsumerJoined(subscription):
                    event = self._consumer_event("joined", subscription)
                    if event is not None:
                        self._joined[subscription] = event
                case ConsumerLeft(subscription):
                    joined = self._joined.pop(subscription, None)
                    if joined is None:
                        self._consumer_event("left", subscription)
                    else:
                        joined.clear()  # it came and went within the second
                case ConsumerSlow(subscription, detail):
                    self._note_slow(subscription, {"slow": True, "ended": True, "detail": detail})
                case DeadLetter():
                    self._on_dead_letter(fact)
                case SnapshotWanted(subscription):
                    self._messages.deliver(subscription, self.snapshot(subscription.address))
                case unknown:
                    assert_never(unknown)

    def connection(self, event: str, about: Facts, reason: str = "") -> None:
        """A connection logged in ("opened") or ended ("closed")."""
        if self.has_subscribers:
            topic = OPENED if event == "opened" else CLOSED
            about = {**about, "reason": reason} if event == "closed" else about
            self._note(topic, about["id"], about)

    def files(self, about: Facts) -> None:
        """Files of the configuration were read again, or could not be used."""
        if self.has_subscribers:
            self._note(FILES, about["trigger"], about)

    def alert(self, event: str, about: Facts) -> None:
        """An alert `fired`, was `acknowledged` or `silenced`, was `unsilenced` from that, or `ended`."""
        if self.has_subscribers:
            self._note(ALERT, about["id"], about, event=event)

    def logged(self, about: Facts) -> None:
        """Something was written into the event log."""
        if self.has_subscribers:
            self._note(EVENT, about["name"], about)

    def _on_full(self, address: str, detail: str) -> None:
        if address not in self._full:
            self._full.add(address)
            self._note_full(address, full=True, detail=detail)

    def _on_dead_letter(self, fact: DeadLetter) -> None:
        data = self._dead.get((fact.address, fact.reason))
        if data is None:
            data = {
                "destination": fact.address,
                "reason": fact.reason,
                "messages": 0,
                "last_id": "",
                "last_detail": "",
            }
            self._dead[fact.address, fact.reason] = data
            self._note(DEAD, fact.address, data, about=fact.address)
        data["messages"] += fact.messages
        data["last_id"], data["last_detail"] = fact.message_id, fact.detail

    def _consumer_event(self, what: str, subscription: Subscription) -> _Event | None:
        data = {**consumer(self._broker, subscription), "consumers": len(subscription.queue.consumers)}
        address = subscription.address
        return self._note(CONSUMER, address, data, about=address, event=what)

    def _note_full(self, address: str, *, full: bool, detail: str) -> None:
        self._note(FULL, address, {"destination": address, "full": full, "detail": detail})

    def _note_slow(self, subscription: Subscription, about: Facts) -> None:
        data = {**consumer(self._broker, subscription), **about}
        self._note(SLOW, data["connection"] or subscription.address, data)

    def _note(
        self, topic: str, subject: str, data: Facts, *, about: str = "", event: str = ""
    ) -> _Event | None:
        """Publish an event of a declared topic, or of the one below it that is `about` an address."""
        if len(self._events) >= MAX_EVENTS:
            self._missed += 1
            return None
        noted = self._event(type_of(topic, event), subject, data)
        self._events.append((_below(topic, about) if about else topic, noted))
        return noted

    def _event(self, type_: str, subject: str, data: Facts) -> _Event:
        self._sequence += 1
        return {
            "specversion": "1.0",
            "id": f"{self._boot}-{self._sequence:x}",
            "source": self._source,
            "type": type_,
            "subject": subject,
            "time": rfc3339(self._clock()),
            "datacontenttype": "application/json",
            "sequence": f"{self._sequence:016d}",
            "data": data,
        }

    # ------------------------------------------------------------------ once a second

    def publish(self) -> None:
        """Publish the events and statistics that have subscribers; called after each pass of the
        statistics. While those of the last call are being sent, events wait, and statistics are left out."""
        if not self.has_subscribers:
            self._forget()
            return
        if self._messages.is_publishing:
            return
        self._check_full()
        self._check_slow()
        self._check_bridges()
        self._check_callbacks()
        self._check_jobs()
        self._check_mirrors()
        self._check_cluster()
        self._joined.clear()
        self._dead.clear()
        events, self._events = [event for event in self._events if event[1]], []
        missed, self._missed = self._missed, 0
        if missed and events:
            events[-1][1]["missed"] = missed
        self._messages.publish(chain(self._numbers(), self._subscribed(events)))

    def _forget(self) -> None:
        self._events.clear()
        self._joined.clear()
        self._dead.clear()
        self._full.clear()
        self._slow.clear()
        self._bridge_changes.forget()
        self._destination_changes.forget()
        self._of_jobs.clear()
        self._mirror_changes.forget()
        self._cluster_changes.forget()
        self._missed = 0

    def _is_subscribed(self, topic: str) -> bool:
        return any(self._broker.destinations.topics.match(topic))

    def _subscribed(self, events: Iterable[tuple[str, Facts]]) -> Iterator[SystemMessage]:
        for topic, event in events:
            if self._is_subscribed(topic):
                yield _cloud_event(topic, event)

    def _numbers(self) -> Iterator[SystemMessage]:
        if self._is_subscribed(NODE):
            yield SystemMessage(NODE, self._of_node())
        if not self._is_subscribed(DESTINATIONS):
            self._destination_changes.forget()
        elif (changed := self._destination_changes.next_message()) is not None:
            yield SystemMessage(DESTINATIONS, changed)
        if self._is_subscribed(STATS):
            yield SystemMessage(STATS, self._statistics.latest())
        for address in self._statistics.moving():
            topic = _below(STATS_OF, address)
            if self._is_subscribed(topic) and self._statistics.exists(address):
                yield self._of_destination(topic, address)

    def _of_node(self) -> Facts:
        head = self._statistics.head()
        counts = {
            "jobs": sum(not job["ended_ms"] for job in self._jobs()),
            "alerts": sum(alert["state"] == FIRING for alert in self._alerts()),
        }
        return {**head, "node": {**head["node"], **counts}}

    def _of_destination(self, topic: str, address: str) -> SystemMessage:
        return SystemMessage(topic, {"time": rfc3339(self._clock()), **self._statistics.full(address)})

    def _check_full(self) -> None:
        for address in list(self._full):
            queue = self._broker.destinations.queues.get(address)
            if queue is None or not self._broker.destination_limits.is_full(queue):
                self._full.remove(address)
                self._note_full(address, full=False, detail="")

    def _check_slow(self) -> None:
        slow_consumers = self._broker.subscriptions.slow_consumers
        if not (self._slow or len(slow_consumers)):
            return
        for subscription in slow_consumers:
            if subscription not in self._slow and not is_system_topic(parse(subscription.address)):
                self._slow[subscription] = {}
                self._note_slow(subscription, {"slow": True, "ended": False, "detail": ""})
        for subscription in [known for known in self._slow if not slow_consumers.since_ms(known)]:
            del self._slow[subscription]
            if subscription.peer.subscriptions.get(subscription.id) is subscription:
                self._note_slow(subscription, {"slow": False, "ended": False, "detail": ""})

    def _check_bridges(self) -> None:
        if not self._broker.destinations.topics.reaches(*BRIDGE.split(".")):
            self._bridge_changes.forget()
            return
        for bridge in self._bridge_changes.due(self._clock()):
            self._note(BRIDGE, bridge["name"], bridge, about=f"/bridge/{bridge['name']}")

    def _check_callbacks(self) -> None:
        if not self._broker.destinations.topics.reaches(*CALLBACK.split(".")):
            self._callback_changes.forget()
            return
        for callback in self._callback_changes.due(self._clock()):
            self._note(CALLBACK, callback["name"], callback, about=f"/callback/{callback['name']}")

    def _check_jobs(self) -> None:
        if not self._broker.destinations.topics.reaches(*JOB.split(".")):
            self._of_jobs.clear()
            return
        events, self._of_jobs = self._of_jobs, {job["id"]: job for job in self._jobs()}
        latest_ms = (self._clock() - JUST_ENDED_S) * 1000
        for name, job in self._of_jobs.items():
            changed = events[name] != job if name in events else not 0 < job["ended_ms"] < latest_ms
            if changed:
                self._note(JOB, name, job, about=f"/job/{name}")

    def _check_mirrors(self) -> None:
        if not self._broker.destinations.topics.reaches(*MIRROR.split(".")):
            self._mirror_changes.forget()
        elif (status := self._mirror_changes.due(self._clock())) is not None:
            self._note(MIRROR, status["name"], status, about=f"/mirror/{status['name']}")

    def _check_cluster(self) -> None:
        if not self._broker.destinations.topics.reaches(*CLUSTER.split(".")):
            self._cluster_changes.forget()
            return
        for status in self._cluster_changes.due(self._clock()):
            self._note(CLUSTER, status["broker"], status, about=f"/cluster/{status['broker']}")

    # ------------------------------------------------------------------ snapshots

    def snapshot(self, address: str) -> Iterator[SystemMessage]:
        """The present state for a new subscriber of the filter `address`: one message for each topic, with at
        most `MAX_ITEMS` items. It may be read over several turns of the loop."""
        included = partial(matches, parse(address).name)
        if included(NODE):
            yield SystemMessage(NODE, self._of_node())
        if included(STATS):
            yield SystemMessage(STATS, self._statistics.latest())
        for known in [row["name"] for row in self._statistics.latest()["destinations"]]:
            topic = _below(STATS_OF, known)
            # The list is that of the last pass; since then a destination may have gone.
            if included(topic) and self._statistics.exists(known):
                yield self._of_destination(topic, known)
        for topic, things in self._lists():
            if included(topic):
                yield self._state(topic, things())
        for topic, thing in list(self._single_things()):
            if included(topic):
                yield self._state(topic, [thing])
        for topic, consumers in self._consumers(included).items():
            yield self._state(topic, (consumer(self._broker, subscription) for subscription in consumers))

    def _lists(self) -> Iterator[tuple[str, Callable[[], Iterable[Facts]]]]:
        """Topics whose state is a list of what there is."""
        yield CREATED, self._destinations
        yield FULL, self._full_destinations
        yield OPENED, self._connections
        yield ALERT, self._alerts
        yield SLOW, self._slow_consumers

    def _single_things(self) -> Iterator[tuple[str, Facts]]:
        """Things that have a topic of their own, with that topic."""
        for bridge in islice(self._bridge_changes.read(), MAX_ITEMS):
            yield _below(BRIDGE, f"/bridge/{bridge['name']}"), brief(bridge)
        for callback in islice(self._callback_changes.read(), MAX_ITEMS):
            yield _below(CALLBACK, f"/callback/{callback['name']}"), callback
        for job in islice(self._jobs(), MAX_ITEMS):
            yield _below(JOB, f"/job/{job['id']}"), job
        mirrors = self._mirror_changes.read()
        if mirrors is not None:
            yield _below(MIRROR, f"/mirror/{mirrors['name']}"), mirrors
        for cluster in self._cluster_changes.read():
            yield _below(CLUSTER, f"/cluster/{cluster['broker']}"), without_name(cluster)

    def _state(self, topic: str, things: Iterable[Facts]) -> SystemMessage:
        things = iter(things)
        items = list(islice(things, MAX_ITEMS))
        data = {"items": items, "complete": next(things, None) is None}
        event = self._event(type_of(topic, "snapshot"), topic, data)
        return SystemMessage(topic, data, {**event, "snapshot": True}, is_state=True)

    def _destinations(self) -> Iterator[Facts]:
        for address in self._broker.destinations.queues:
            if not address.startswith("/temp-"):
                yield {"destination": address}

    def _full_destinations(self) -> Iterator[Facts]:
        for address, queue in self._broker.destinations.queues.items():
            if self._broker.destination_limits.is_full(queue):
                yield {"destination": address, "full": True, "detail": ""}

    def _slow_consumers(self) -> Iterator[Facts]:
        for subscription in self._broker.subscriptions.slow_consumers:
            yield consumer(self._broker, subscription)

    def _consumers(self, included: Callable[[str], bool]) -> dict[str, list[Subscription]]:
        """The consumers of at most `MAX_ITEMS` destinations, by the topic of each."""
        consumers: dict[str, list[Subscription]] = {}
        for peer in self._broker.unsettled.peers:
            for subscription in peer.subscriptions.values():
                destination = parse(subscription.address)
                if destination.kind.startswith("temp-") or is_system_topic(destination):
                    continue
                topic = _below(CONSUMER, subscription.address)
                if topic in consumers or (len(consumers) < MAX_ITEMS and included(topic)):
                    consumers.setdefault(topic, []).append(subscription)
        return consumers


def _below(topic: str, address: str) -> str:
    """The topic about an address. Wildcards are spelled, what is too long is cut."""
    name = address.split("/", 2)[2]
    levels = [WILDCARDS.get(level, level) for level in name.split(".")]
    return f"{topic}.{'.'.join(levels)[: MAX_NAME - len(CONSUMER) - 1].rstrip()}"


def _cloud_event(topic: str, event: Facts) -> SystemMessage:
    return SystemMessage(topic, event["data"], event)
