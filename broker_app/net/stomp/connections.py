"""STOMP connections as operators see them: current and recent ones, their statistics, and how to end one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

from broker_app.base.refused import Refused
from broker_app.base.reply_types import Facts
from broker_app.base.system_topics import FAILOVER
from broker_app.base.times import rfc3339
from broker_app.core.model import Subscription
from broker_app.net.stomp.session import OPENED_EVENT, StompSession
from broker_app.net.stomp.session_registry import ClientList, SessionRegistry
from broker_app.telemetry import client_events
from broker_app.telemetry.client_events import ClientEvent, ClientIdentity, ClientRecord
from broker_app.telemetry.statistics import consumer

#: subscriptions that are shown of one connection, or of one queue
MAX_CONSUMERS = 1_000
MAX_REASON = 500
#: what client libraries subscribe to by themselves
FAILOVER_TOPIC = f"/topic/{FAILOVER}"
#: longest time for a draining client to settle its deliveries
MAX_DRAIN_S = 600.0


class Connections:
    """The authenticated connections, and those that ended within a day. Their id is the header `session` of
    CONNECTED."""

    def __init__(self, registry: SessionRegistry) -> None:
        self._registry = registry
        self.client_events = registry.client_events
        registry.listeners.add(self._on_event)
        #: connections that logged in, and that ended, since the node started, by transport
        self.opened_total: Counter[str] = Counter()
        self.closed_total: Counter[str] = Counter()
        #: connections and destinations of subscriptions that were slow at the last check
        self._slow: set[tuple[str, str]] = set()
        #: one connection in numbers. Bytes and frames are those of STOMP, without TLS and WebSocket.
        self.members: Final[Mapping[str, Callable[[StompSession], Any]]] = {
            "id": lambda session: session.peer.connection,
            "number": lambda session: session.number,
            "user": lambda session: session.user,
            "client": _client_id,
            "service": lambda session: session.service,
            "transport": _transport,
            "address": lambda session: session.peer_name.partition(" ")[2] or None,
            "protocol": lambda session: f"STOMP {session.conversation.version}",
            "tls": lambda session: session.conversation.transport.connection_info.tls,
            "since": lambda session: rfc3339(session.since_s),
            "closed_at": lambda _: None,
            "reason": lambda _: None,
            "bytes_in": lambda session: session.conversation.bytes_in,
            "bytes_out": lambda session: session.conversation.bytes_out,
            "frames_in": lambda session: session.conversation.frames_in,
            "frames_out": _frames_out,
            "in_rate": lambda session: self._rates(session)[0],
            "out_rate": lambda session: self._rates(session)[1],
            "subscriptions": lambda session: sum(1 for _ in _of_program(session)),
            "transactions": lambda session: len(session.peer.transactions),
            "unsettled": lambda session: len(session.peer.unsettled),
            "heart_beat_in_s": lambda session: session.heart_beats[0],
            "heart_beat_out_s": lambda session: session.heart_beats[1],
            "idle_s": lambda session: round(session.idle_s, 3),
            "congested": lambda session: session.peer.paused and not session.is_draining,
            "throttled": lambda session: session.is_throttled,
            "draining": lambda session: session.is_draining,
            "slow": self._is_slow,
        }

    def __len__(self) -> int:
        return sum(1 for _ in self.sessions())

    @property
    def bytes_total(self) -> tuple[int, int]:
        """Bytes from all clients, and to them, since the node started."""
        return self._registry.bytes_total

    def sessions(self) -> Iterator[StompSession]:
        """The authenticated sessions, oldest first."""
        return (session for session in self._registry.sessions if session.peer.connection)

    def find(self, id: str) -> StompSession | None:
        return next((session for session in self.sessions() if session.peer.connection == id), None)

    def by_id(self) -> dict[str, StompSession]:
        """The authenticated sessions by their ids."""
        return {session.peer.connection: session for session in self.sessions()}

    def all(self) -> Iterator[Facts]:
        """The facts of all, oldest first."""
        return map(self.facts, self.sessions())

    def facts(self, session: StompSession) -> Facts:
        """One connection in numbers."""
        return {name: fact(session) for name, fact in self.members.items()}

    def details(self, session: StompSession) -> Facts:
        """The same with the list of brokers that it has, and the subscriptions of its program, of which the
        first ones are shown."""
        broker = self._registry.engine.broker
        first = islice(_of_program(session), MAX_CONSUMERS)
        return {
            **self.facts(session),
            **_shown_list(self._registry.list_of(session)),
            "consumers": [consumer(broker, one) for one in first],
        }

    # ------------------------------------------------------------------ ending one

    def close(self, session: StompSession, reason: str, by: str) -> None:
        """End a connection for the operator `by`; the client receives the reason."""
        self.client_events.note(session.peer.connection, client_events.DISCONNECTING, detail=reason, by=by)
        session.close(Refused("disconnected", reason))

    def drain(self, session: StompSession, reason: str, within_s: float, by: str) -> None:
        """End a connection when its client has settled everything; until then it receives nothing new."""
        self.client_events.note(session.peer.connection, client_events.DRAINING, detail=reason, by=by)
        session.drain(reason, within_s)

    # ------------------------------------------------------------------ what happened

    def events(self, record: ClientRecord) -> list[Facts]:
        """The events of a client, newest first."""
        return [_shown(happened) for happened in reversed(record.events)]

    def gone(self) -> Iterator[Facts]:
        """The last facts of connections that ended within a day, the latest first."""
        return (dict(record.facts) for record in self.client_events.gone() if record.facts is not None)

    def details_of_gone(self, facts: Facts) -> Facts:
        """The last facts of a connection that ended, with all members of `details`: it has nothing now."""
        return {**facts, **_shown_list(ClientList()), "consumers": []}

    def flapping(self) -> list[Facts]:
        """Flapping clients, the most frequent first."""
        return [
            {**caller._asdict(), "connects": connects, "last_at": rfc3339(last_s), "last_reason": reason}
            for caller, connects, last_s, reason in self.client_events.flapping()
        ]

    def check_slow(self) -> None:
        """Record which subscriptions became slow or recovered; called once a second."""
        slow_consumers = self._registry.engine.broker.subscriptions.slow_consumers
        if not (self._slow or len(slow_consumers)):
            return
        slow = {(subscription.peer.connection, subscription.address) for subscription in slow_consumers}
        for connection, destination in slow - self._slow:
            self.client_events.note(connection, client_events.SLOW, detail=destination)
        for connection, destination in self._slow - slow:
            self.client_events.note(connection, client_events.RECOVERED, detail=destination)
        self._slow = slow

    def _on_event(self, event: str, session: StompSession) -> None:
        id = session.peer.connection
        if event == OPENED_EVENT:
            self.opened_total[_transport(session)] += 1
            caller = ClientIdentity(session.user, _client_id(session), _machine(session))
            self.client_events.begin(id, caller, browser=_is_browser(session))
        else:
            self.closed_total[_transport(session)] += 1
            closed = {
                "closed_at": rfc3339(self.client_events.now()),
                "reason": session.conversation.close_reason,
            }
            self.client_events.end(id, {**self.facts(session), **closed}, session.conversation.close_reason)

    def _rates(self, session: StompSession) -> tuple[float, float]:
        return self.client_events.rates(
            session.peer.connection, session.conversation.frames_in, _frames_out(session)
        )

    def _is_slow(self, session: StompSession) -> bool:
        slow_consumers = self._registry.engine.broker.subscriptions.slow_consumers
        if not len(slow_consumers):
            return False
        return any(
            slow_consumers.since_ms(subscription) for subscription in session.peer.subscriptions.values()
        )


def _of_program(session: StompSession) -> Iterator[Subscription]:
    """The subscriptions of a client without the one that its library has made by itself."""
    return (one for one in session.peer.subscriptions.values() if one.address != FAILOVER_TOPIC)


def _is_browser(session: StompSession) -> bool:
    """Return True for a page of the console: a WebSocket with the cookie of a signed-in user."""
    return session.preauthenticated and session.peer_name.startswith("websocket ")


def _transport(session: StompSession) -> str:
    """tcp, tls or websocket."""
    return session.peer_name.partition(" ")[0]


def _client_id(session: StompSession) -> str:
    """The `client-id` of CONNECT; empty without one."""
    return session.client.connection_info.client or "" if session.client is not None else ""


def _machine(session: StompSession) -> str:
    """The address of the client's machine; empty if it is not known."""
    return session.client.connection_info.address or "" if session.client is not None else ""


def _frames_out(session: StompSession) -> int:
    peer = session.peer
    together = sum(subscription.fanned_out for subscription in peer.subscriptions.values())
    return session.conversation.frames_out + peer.fanned_out + together


def _shown_list(has: ClientList) -> Facts:
    """For the API."""
    since = rfc3339(has.since_s) if has.since_s is not None else None
    return {"list_version": has.version, "list_since": since, "behind": has.behind}


def _shown(happened: ClientEvent) -> Facts:
    """For the API."""
    return {
        "at": rfc3339(happened.at_s),
        "first_at": rfc3339(happened.first_s),
        **{name: getattr(happened, name) for name in ("event", "code", "detail", "by", "times")},
    }
