"""The producers of blocked messages: how many bytes of each are blocked, and which are throttled."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from broker_app.core.commands import AUTO
from broker_app.core.model import BlockedPublish, Peer
from broker_app.core.turn import Turn


class BlockedProducers:
    """Counts the bytes of blocked messages. A peer with many of them is throttled: its connection is not
    read.

    A peer that acknowledges deliveries is never throttled, because its acknowledgements, which follow its
    messages, may be what makes room: otherwise it could wait for itself. Its messages beyond its share are
    refused. Those in `paced` are throttled as well (`PacedProducers`)."""

    def __init__(self, turn: Turn, paced: AbstractSet[Peer]) -> None:
        self._turn = turn
        self._paced = paced
        self.bytes = 0
        self.by_peer: dict[Peer, int] = {}
        self.throttled: set[Peer] = set()
        #: peers to check again
        self.changed: set[Peer] = set()

    def takes(self, blocked: BlockedPublish) -> bool:
        """Return whether one more message can be blocked; it is then counted."""
        limits, size, peer = self._turn.limits, blocked.size, blocked.peer
        share = self.by_peer.get(peer, 0) + size
        if self.bytes + size > limits.blocked_bytes or share > limits.blocked_bytes // 2:
            return False
        self.bytes += size
        self.by_peer[peer] = share
        self.check_later(peer)
        return True

    def leaves(self, blocked: BlockedPublish) -> None:
        """Count a message that is no longer blocked."""
        peer, size = blocked.peer, blocked.size
        self.bytes -= size
        left = self.by_peer[peer] - size
        if left:
            self.by_peer[peer] = left
        else:
            del self.by_peer[peer]
        self.check_later(peer)

    def recheck(self, peer: Peer) -> None:
        """Check a peer again, because its subscriptions have changed."""
        if peer in self.by_peer:
            self.check_later(peer)

    def check_later(self, peer: Peer) -> None:
        """Have `turns` check a peer at the end of this turn."""
        self.changed.add(peer)
        self._turn.follows_up = True

    def turns(self) -> list[tuple[Peer, bool]]:
        """The peers that are throttled (True) or no longer throttled (False) since the last call."""
        turned = []
        for peer in self.changed:
            throttle = peer in self._paced or self._is_too_much(peer)
            if throttle != (peer in self.throttled):
                (self.throttled.add if throttle else self.throttled.remove)(peer)
                turned.append((peer, throttle))
        self.changed.clear()
        return turned

    def _is_too_much(self, peer: Peer) -> bool:
        share = self.by_peer.get(peer, 0)
        acknowledges = any(sub.ack != AUTO and not sub.inner_ack for sub in peer.subscriptions.values())
        if not share or peer.disconnected or acknowledges:
            return False
        limits = self._turn.limits
        most = limits.blocked_per_peer // 2 if peer in self.throttled else limits.blocked_per_peer
        return share > most or self.bytes > limits.blocked_bytes // 4
