"""Queues without use: each is deleted once all brokers that are linked say that they do not use it either.

A broker that cannot be reached is not asked. If it has messages, its queue is there again for the others as
soon as a consumer comes.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker_app.core.commands import DeleteUnused
from broker_app.engine import Engine
from broker_app.features.cluster.links import frames as f
from broker_app.features.cluster.links.link import Link


class UnusedQueues:
    """Asks the other brokers, and answers them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._usage = engine.broker.cluster_usage
        self._usage.unused = {}
        #: the last question: its number, who has not answered, and what is used by none that has
        self._number = 0
        self._waiting: set[Link] = set()
        self._unused: set[str] = set()

    def ask(self, links: Sequence[Link]) -> None:
        """Ask about queues that have had no use here for their time. A question that not all have answered
        is void."""
        addresses = list(self._usage.unused or ())
        if not addresses:
            return
        self._usage.unused = {}
        self._number += 1
        self._waiting, self._unused = set(links), set(addresses)
        for link in links:
            link.send(f.AskUnused(self._number, addresses))
        self._check()

    def asked(self, link: Link, frame: f.AskUnused) -> None:
        """Answer another broker."""
        is_used = self._engine.broker.sweeper.is_used
        unused = [address for address in frame.addresses if not is_used(address)]
        link.send(f.Unused(frame.number, unused))

    def answered(self, link: Link, frame: f.Unused) -> None:
        """Take an answer."""
        if frame.number == self._number and link in self._waiting:
            self._waiting.remove(link)
            self._unused.intersection_update(frame.addresses)
            self._check()

    def ended(self, link: Link) -> None:
        """Delete nothing about which a broker was asked that may not have answered."""
        if link in self._waiting:
            self._waiting.clear()
            self._unused.clear()

    def _check(self) -> None:
        """Delete what no broker uses, once all have answered."""
        if not self._waiting and self._unused:
            self._engine.submit(DeleteUnused(sorted(self._unused)))
            self._unused = set()
