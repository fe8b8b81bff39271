"""What the broker tells about itself: numbers of destinations and of the node, sampled once a second.

The shape is that of `GET /api/v1/stats` and of the topic `$mom.stats`; docs/protocol.md shows it.
"""

from __future__ import annotations

import resource
import time
from datetime import UTC, datetime
from typing import Any

from broker_app.core.broker import Broker
from broker_app.core.destination import is_reserved

STATS_TOPIC = "$mom.stats"
MAX_DESTINATIONS = 1_000


class Statistics:
    """Keeps the totals of the last sample, so that the next one can say rates."""

    def __init__(self, broker: Broker, name: str, version: str) -> None:
        self._broker = broker
        self._name = name
        self._version = version
        self._totals: dict[str, tuple[int, int]] = {}
        self._sampled = time.monotonic()
        self._latest: dict[str, Any] = {}

    def sample(self, connections: int, journal_bytes: int) -> dict[str, Any]:
        """Take the numbers of this moment; rates are over the time since the former sample."""
        now = time.monotonic()
        elapsed = max(1e-3, now - self._sampled)
        totals, self._totals = self._totals, {}
        destinations = [
            self._queue(name, totals, elapsed) for name in list(self._broker.queues)[:MAX_DESTINATIONS]
        ]
        destinations += [
            self._topic(name, totals, elapsed)
            for name in self._broker.topic_published
            if not is_reserved(name)
        ]
        self._sampled = now
        counters = self._broker.counters
        former = totals.get("", (counters["published"], counters["delivered"]))
        self._totals[""] = (counters["published"], counters["delivered"])
        self._latest = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "node": {
                "name": self._name,
                "version": self._version,
                "connections": connections,
                "in_rate": round((counters["published"] - former[0]) / elapsed, 1),
                "out_rate": round((counters["delivered"] - former[1]) / elapsed, 1),
                "memory_bytes": resident_bytes(),
                "journal_bytes": journal_bytes,
            },
            "destinations": destinations[:MAX_DESTINATIONS],
        }
        return self._latest

    def latest(self) -> dict[str, Any]:
        """The last sample."""
        return self._latest

    def _queue(self, address: str, former: dict[str, tuple[int, int]], elapsed: float) -> dict[str, Any]:
        queue = self._broker.queues[address]
        now_in, now_out = queue.published_total, queue.delivered_total
        was_in, was_out = former.get(address, (now_in, now_out))
        self._totals[address] = (now_in, now_out)
        oldest = queue.oldest()
        return {
            "name": address,
            "kind": "queue" if queue.durable else "temp-queue",
            "depth": queue.depth,
            "unsettled": queue.unsettled,
            "consumers": len(queue.consumers),
            "in_rate": round((now_in - was_in) / elapsed, 1),
            "out_rate": round((now_out - was_out) / elapsed, 1),
            "oldest_s": round(max(0.0, time.time() - oldest.time_ms / 1000), 3) if oldest else 0.0,
        }

    def _topic(self, name: str, former: dict[str, tuple[int, int]], elapsed: float) -> dict[str, Any]:
        address = f"/topic/{name}"
        match = self._broker.topics.match(name)
        total = self._broker.topic_published[name]
        was, _ = former.get(address, (total, 0))
        self._totals[address] = (total, 0)
        rate = round((total - was) / elapsed, 1)
        return {
            "name": address,
            "kind": "topic",
            "depth": sum(subscription.queue.depth for subscription in match.singles),
            "unsettled": sum(subscription.unsettled for subscription in match.singles),
            "consumers": match.copies,
            "in_rate": rate,
            "out_rate": round(rate * match.copies, 1),
            "oldest_s": 0.0,
        }


def resident_bytes() -> int:
    """Memory of this process in use now (Linux), or its peak where that cannot be read."""
    try:
        with open("/proc/self/statm", encoding="ascii") as statm:
            return int(statm.read().split()[1]) * resource.getpagesize()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
