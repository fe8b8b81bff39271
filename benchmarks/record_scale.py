"""The costs of the change record of a cluster: memory, a change, and the comparison when brokers are linked.

`python -m benchmarks.record_scale` has one broker and all others of a cluster, with the real record and its
propagation, and no sockets or disk: messages are encoded as on a link, and entries count as saved at once.
Each broker has declared queues, which all know, as in the tables of `benchmarks.cluster_scale`.
"""

from __future__ import annotations

import argparse
import sys
import time
import tracemalloc
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import msgspec

from benchmarks.cluster_scale import DESTINATIONS, SIZES, Cost
from broker_app.base.refused import Refused
from broker_app.features.cluster.links import frames as f
from broker_app.features.cluster.record.change_record import DESTINATION, Change, ChangeRecord, Entry, Version
from broker_app.features.cluster.record.keeper import Keeper
from broker_app.features.cluster.record.propagation import Propagation, Saved
from broker_app.features.cluster.record.record_messages import RecordMessage

_HERE: Final = "b0"
#: changes whose mean is given, and those that a broker misses while it is not linked
_CHANGES: Final = 50
_MISSED: Final = 100
_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(RecordMessage)


class RecordNetwork:
    """A broker, and all others of a cluster, each linked to it; `entries` are in all records."""

    def __init__(self, brokers: int, entries: Sequence[Entry]) -> None:
        self.frames = self.size = 0
        self._waiting: deque[Callable[[], object]] = deque()
        self.others = [f"b{number}" for number in range(1, brokers)]
        self.members = {name: self._member(name, entries) for name in (_HERE, *self.others)}

    @property
    def here(self) -> Propagation:
        return self.members[_HERE]

    def _member(self, name: str, entries: Sequence[Entry]) -> Propagation:
        record = ChangeRecord(entries)
        keeper = Keeper(name, record, "", is_here=False)
        return Propagation(name, record, keeper, partial(self._send, name), self._save, self._waiting.append)

    def _save(self, _: Sequence[Entry], then: Saved) -> None:
        self._waiting.append(partial(then, None))

    def _send(self, sender: str, receiver: str, message: RecordMessage) -> None:
        encoded = _encode(message)
        self.frames += 1
        self.size += len(f.encode(f.Record(encoded)))
        self._waiting.append(lambda: self.members[receiver].receive(sender, _decoder.decode(encoded)))

    def settle(self) -> None:
        """Do all that is under way."""
        while self._waiting:
            self._waiting.popleft()()

    def link(self) -> None:
        """Link the broker to all others, and wait until their records are equal."""
        for other in self.others:
            self.here.connected(other, "")
            self.members[other].connected(_HERE, "")
        self.settle()

    def unlink(self) -> None:
        """End all links."""
        for other in self.others:
            self.here.disconnected(other)
            self.members[other].disconnected(_HERE)

    def cost_of(self, work: Callable[[], object], times: int = 1) -> Cost:
        """The cost of some work to all brokers together, of one of so many times."""
        frames, size, began = self.frames, self.size, time.process_time()
        work()
        self.settle()
        used = time.process_time() - began
        return Cost((self.frames - frames) / times, (self.size - size) / times, 1000 * used / times)

    def change(self, broker: str, numbers: range) -> None:
        """Change the settings of queues at one broker, one after the other."""
        for number in numbers:
            self.members[broker].change([_declared(number, max_messages=2_000 + number)], _must_be_entered)
            self.settle()


@dataclass(frozen=True, slots=True)
class RecordRow:
    """One size of a cluster."""

    brokers: int
    change: Cost
    equal: Cost
    missed: Cost


def _declared(number: int, **settings: Any) -> Change:
    return Change(DESTINATION, f"/queue/orders.{number}", {"max_messages": 1_000, **settings})


def _must_be_entered(refusal: Refused | None) -> None:
    assert refusal is None, refusal


def entries(destinations: int) -> list[Entry]:
    """Those of so many declared queues."""
    return [
        Entry(*_declared(number)[:2], Version(number + 1, _HERE), _declared(number).value, _HERE)
        for number in range(destinations)
    ]


def memory_mib(destinations: int) -> float:
    """The MiB that one broker holds for its record."""
    encoded = _encode(entries(destinations))
    tracemalloc.start()
    record = ChangeRecord(msgspec.msgpack.decode(encoded, type=list[Entry]))
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert len(record) == destinations
    return used / 2**20


def simulate(brokers: int, destinations: int) -> RecordRow:
    """Build the cluster and measure."""
    network = RecordNetwork(brokers, entries(destinations))
    network.link()
    change = network.cost_of(partial(network.change, _HERE, range(_CHANGES)), _CHANGES)
    network.unlink()
    equal = network.cost_of(network.link)
    network.unlink()
    network.change(_HERE, range(_CHANGES, _CHANGES + _MISSED))
    missed = network.cost_of(network.link)
    digests = {member.record.digest for member in network.members.values()}
    assert len(digests) == 1, "all have the same record"
    return RecordRow(brokers, change, equal, missed)


def line(row: RecordRow) -> str:
    """A line of the table."""
    cells = [
        f"{cost.frames:,.0f}, {cost.size / 1024:,.1f}, {cost.cpu_ms:,.1f}"
        for cost in (row.change, row.equal, row.missed)
    ]
    return f"| {row.brokers} | {' | '.join(cells)} |"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.record_scale", description=__doc__)
    parser.add_argument("--brokers", default=",".join(map(str, SIZES)), help="sizes of clusters")
    parser.add_argument("--destinations", type=int, default=DESTINATIONS, help="that are declared (10000)")
    arguments = parser.parse_args(argv)
    heads = (
        "brokers",
        "change: frames, KiB, ms",
        "linked again, equal: frames, KiB, ms",
        f"linked again after {_MISSED} changes: frames, KiB, ms",
    )
    print(f"The record of one broker: {memory_mib(arguments.destinations):.1f} MiB\n")
    print(f"| {' | '.join(heads)} |")
    print("|---" * len(heads) + "|")
    for brokers in map(int, arguments.brokers.split(",")):
        print(line(simulate(brokers, arguments.destinations)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
