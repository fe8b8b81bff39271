"""Several records in one process: messages arrive in any order between links, and links are cut."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import msgspec

from broker_app.base.refused import Refused
from broker_app.features.cluster.record.change_record import DESTINATION, Change, ChangeRecord, Entry
from broker_app.features.cluster.record.keeper import Keeper
from broker_app.features.cluster.record.propagation import Propagation, Saved
from broker_app.features.cluster.record.record_messages import RecordMessage

_MESSAGES = msgspec.msgpack.Decoder(RecordMessage)


class Network:
    """Brokers, and what is under way between them. What is sent is encoded, as on a wire."""

    def __init__(self, names: Sequence[str], seed: int = 1, keeper: str = "", **facts: Any) -> None:
        self.chance = Random(seed)
        #: the broker whose address the configuration of all names
        self.keeper, self._facts = keeper, facts
        self.keeper_address = f"{keeper}host:7676" if keeper else ""
        #: by sender and receiver, while they are connected
        self.links: dict[tuple[str, str], deque[bytes]] = {}
        self.work: dict[str, deque[Callable[[], object]]] = {}
        self.saved: dict[str, list[Entry]] = {name: [] for name in names}
        self.brokers: dict[str, Propagation] = {}
        for name in names:
            self.start(name)

    def start(self, name: str) -> Propagation:
        """Start a broker, or start it again with what it had saved."""
        self.work[name] = deque()

        def save(entries: Sequence[Entry], then: Saved) -> None:
            def write() -> None:
                self.saved[name] += entries
                then(None)

            self.work[name].append(write)

        def send(broker: str, message: RecordMessage) -> None:
            encoded = msgspec.msgpack.encode(message)
            assert len(encoded) <= 64 * 1024
            self.links[name, broker].append(encoded)

        record = ChangeRecord(self.saved[name])
        is_here = name == self.keeper
        keeper = Keeper(name, record, self.keeper_address, is_here=is_here, **self._facts)
        broker = Propagation(name, record, keeper, send, save, self.work[name].append)
        self.brokers[name] = broker
        return broker

    def _address(self, name: str) -> str:
        return self.keeper_address if name == self.keeper else f"{name}host:7676"

    def connect(self, one: str, other: str) -> None:
        if (one, other) not in self.links:
            self.links[one, other], self.links[other, one] = deque(), deque()
            self.brokers[one].connected(other, self._address(other))
            self.brokers[other].connected(one, self._address(one))

    def connect_all(self) -> None:
        for one in self.brokers:
            for other in self.brokers:
                if one < other:
                    self.connect(one, other)

    def cut(self, one: str, other: str) -> None:
        """What was under way is lost."""
        if self.links.pop((one, other), None) is not None:
            del self.links[other, one]
            self.brokers[one].disconnected(other)
            self.brokers[other].disconnected(one)

    def cut_off(self, name: str) -> None:
        for other in self.brokers:
            if other != name:
                self.cut(name, other)

    def crash(self, name: str) -> None:
        """Lose what it has not saved, and start it again, not connected."""
        self.cut_off(name)
        self.start(name)

    def step(self, held: tuple[str, str] | None = None) -> bool:
        """One message or one piece of work, drawn; none from a sender to a receiver that are `held`. False if
        there is none."""
        ways: list[tuple[str, deque[Any]]] = [
            *((way[1], queue) for way, queue in self.links.items() if queue and way != held),
        ]
        choices = [*((None, queue) for queue in self.work.values() if queue), *ways]
        if not choices:
            return False
        _, queue = self.chance.choice(choices)
        taken = queue.popleft()
        if callable(taken):
            taken()
        else:
            (sender, receiver) = next(pair for pair, one in self.links.items() if one is queue)
            self.brokers[receiver].receive(sender, _MESSAGES.decode(taken))
        return True

    def settle(self, held: tuple[str, str] | None = None) -> None:
        while self.step(held):
            pass

    def work_off(self, name: str) -> None:
        """Do the work of a broker, with no message under way."""
        while self.work[name]:
            self.work[name].popleft()()

    def heard(self, sender: str, receiver: str) -> list[RecordMessage]:
        """The messages that are under way between two brokers."""
        return [_MESSAGES.decode(one) for one in self.links[sender, receiver]]

    def change(self, broker: str, name: str, value: dict[str, Any] | None) -> list[Refused | None]:
        """Change a destination; the answer is in the list once there is one."""
        answers: list[Refused | None] = []
        self.brokers[broker].change([Change(DESTINATION, name, value)], answers.append)
        return answers

    def values(self, broker: str) -> dict[str, dict[str, Any]]:
        """The destinations of a broker, as its record has them."""
        entries = self.brokers[broker].record.entries()
        return {one.name: one.value for one in entries if one.kind == DESTINATION and one.value is not None}
