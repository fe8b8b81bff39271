"""STOMP connections as operators see them: who is there, how much went through, and how to end one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from broker_app.core.errors import Refused
from broker_app.net.lobby import Lobby
from broker_app.telemetry.statistics import consumer, rfc3339

if TYPE_CHECKING:
    from broker_app.net.stomp import StompSession

#: subscriptions that are shown of one connection, or of one queue
MAX_CONSUMERS = 1_000
MAX_REASON = 500


class Connections:
    """Those of the lobby that have logged in. An id is what CONNECTED told the client as `session`."""

    def __init__(self, lobby: Lobby) -> None:
        self._lobby = lobby

    def __len__(self) -> int:
        return sum(1 for session in self._lobby.sessions if session.peer.connection)

    @property
    def bytes_total(self) -> tuple[int, int]:
        """Bytes from all clients, and to them, since the node started."""
        return self._lobby.bytes_total

    def page(self, after: int, limit: int, fits: Callable[[StompSession], bool]) -> list[StompSession]:
        """The first `limit` of those that fit with a number above `after`, oldest first."""
        wanted = (
            session
            for session in self._lobby.sessions
            if session.number > after and session.peer.connection and fits(session)
        )
        return list(islice(wanted, limit))

    def find(self, id: str) -> StompSession | None:
        return next((session for session in self._lobby.sessions if session.peer.connection == id), None)

    def all(self) -> Iterator[dict[str, Any]]:
        """The facts of all, oldest first."""
        return (self.facts(session) for session in self._lobby.sessions if session.peer.connection)

    def facts(self, session: StompSession) -> dict[str, Any]:
        """One connection in numbers. Bytes and frames are those of STOMP, without TLS and WebSocket."""
        peer = session.peer
        transport, _, address = session.peer_name.partition(" ")
        beat_in_s, beat_out_s = session.heart_beats
        subscriptions = peer.subscriptions.values()
        slowness = self._lobby.engine.broker.slowness
        together = sum(subscription.fanned_out for subscription in subscriptions)
        return {
            "id": peer.connection,
            "user": session.user,
            "transport": transport,
            "address": address or None,
            "protocol": f"STOMP {session.version}",
            "since": rfc3339(session.since_s),
            "bytes_in": session.bytes_in,
            "bytes_out": session.bytes_out,
            "frames_in": session.frames_in,
            "frames_out": session.frames_out + peer.fanned_out + together,
            "subscriptions": len(peer.subscriptions),
            "transactions": len(peer.transactions),
            "unsettled": len(peer.unsettled),
            "heart_beat_in_s": beat_in_s,
            "heart_beat_out_s": beat_out_s,
            "silent_s": round(session.silent_s, 3),
            "congested": peer.paused,
            "held_back": session.held_back,
            "slow": any(slowness.since_ms(subscription) for subscription in subscriptions),
        }

    def details(self, session: StompSession) -> dict[str, Any]:
        """The same with the connection's subscriptions, of which the first ones are shown."""
        broker = self._lobby.engine.broker
        first = islice(session.peer.subscriptions.values(), MAX_CONSUMERS)
        return {**self.facts(session), "consumers": [consumer(broker, one) for one in first]}

    def close(self, session: StompSession, reason: str) -> None:
        """End a connection; its client is told why."""
        session.close(Refused("disconnected", reason))
