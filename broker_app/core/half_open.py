"""Connections that their own client has left behind: it connected again, and the broker has not noticed yet.

What such a connection holds, a durable name or a place among a number of consumers or producers, would lock
its client out until heart-beats fail. A client that names itself (`client-id`, or the `client-instance` of
`mom_client`) takes it over, as with ActiveMQ's link stealing: the former connection is closed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from broker_app.base.refused import Refused
from broker_app.core.model import Peer
from broker_app.core.turn import Turn


def taken_over() -> Refused:
    """The reason for the former connection."""
    return Refused("taken-over", "a newer connection of the same user, token and client-id has taken over")


class HalfOpenConnections:
    """Ends connections in favour of newer ones. `end` ends all that a peer has."""

    def __init__(self, turn: Turn, end: Callable[[Peer], None]) -> None:
        self._turn = turn
        self._end = end

    def give_way(self, peer: Peer, holders: Iterable[Peer]) -> bool:
        """End those of `holders` that are former connections of the client of `peer`; returns whether there
        was one."""
        if not peer.client_key:
            return False
        former = {one for one in holders if one.client_key == peer.client_key and one is not peer}
        for one in former:
            if not one.stopped:
                self._turn.stop(one)
                self._end(one)
                self._turn.out.closes.append((one, taken_over()))
        return bool(former)
