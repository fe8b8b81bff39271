"""Clients that are asked to go to other brokers: the surplus of this one, oldest first, each once.

A client that can, opens its new connection before it ends the old one. One with a transaction or deliveries
to settle is asked when it has done that, if that is in time.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from broker_app.base.events import REBALANCING_BEGUN, REBALANCING_ENDED
from broker_app.base.refused import Refused
from broker_app.base.system_topics import FAILOVER
from broker_app.core.model import Subscription
from broker_app.features.cluster.clients.client_lists import ClientLists
from broker_app.features.cluster.clients.client_reports import (
    BrokerLoad,
    RebalanceReport,
    Rebalancing,
    RebalancingState,
    Stays,
)
from broker_app.features.cluster.clients.rebalance_plan import most_of, plan
from broker_app.net.stomp.session import StompSession

#: the topic of the list; clients subscribe to it after they have logged in
ADDRESSES: Final = f"/topic/{FAILOVER}"
#: clients that are asked to go elsewhere in a second
PER_SECOND: Final = 10
#: seconds after which a client that was asked has declined
ANSWER_S: Final = 15.0
#: seconds in which clients may finish what they have begun, besides those that all take one after the other
_PATIENCE_S: Final = 60.0
#: former rebalancings that are kept
_KEPT: Final = 50


class _Asked(NamedTuple):
    """A request to a client: to which broker, and when (seconds since 1970)."""

    to: str
    at: float


class Choice(NamedTuple):
    """A client, and the broker that it goes to with its address there, or why it stays."""

    session: StompSession
    to: str
    address: str
    stays: Stays


class Rebalancer:
    """Asks clients to go.

    - `sessions` are those of all clients, oldest first, `lists_of` the list that each is sent; `is_offered`
      returns whether a broker is on any list;
    - `counts` returns how many clients others have;
    - `ask` asks a client, by its subscription to the list, to go to an address;
    - `note` takes what happens, and details.
    """

    def __init__(
        self,
        name: str,
        sessions: Mapping[StompSession, None],
        lists_of: Callable[[StompSession], ClientLists],
        is_offered: Callable[[str], bool],
        counts: Callable[[], Mapping[str, int]],
        *,
        ask: Callable[[StompSession, Subscription, str], None],
        report: Callable[..., None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._name = name
        self._sessions = sessions
        self._lists_of = lists_of
        self._is_offered = is_offered
        self._counts = counts
        self._ask = ask
        self._report = report
        self._clock = clock
        #: who was asked, and has neither gone nor declined
        self._asked: dict[StompSession, _Asked] = {}
        self._declined: set[StompSession] = set()
        self._running: Rebalancing | None = None
        #: the lists whose clients are moved; None: all clients
        self._only: Collection[ClientLists] | None = None
        self._history: deque[Rebalancing] = deque(maxlen=_KEPT)

    def begin(self, cause: str, only: Collection[ClientLists] | None = None) -> Rebalancing | None:
        """Begin to move clients, `only` those of some lists; returns None if all brokers have their share."""
        self._end("replaced")
        self._only = only
        self._declined.clear()
        planned = plan(*self._present())
        if not planned:
            return None
        self._running = Rebalancing(cause=cause, began=self._clock(), planned=planned, moved={})
        self._report(REBALANCING_BEGUN, cause=cause, planned=_listed(planned))
        return self._running

    def order(self, cause: str) -> Rebalancing | None:
        """The same by an order. Raises Refused while clients are being moved."""
        if self._running is not None:
            left = sum(self._running.planned.values()) - sum(self._running.moved.values())
            raise Refused(
                "conflict",
                f"clients are being rebalanced already ({self._running.cause}), and {left} of them have not "
                "gone yet; order it again when that has ended",
            )
        return self.begin(cause)

    def stop(self) -> None:
        """Ask no more clients, since the lists have other settings now."""
        self._end("replaced")

    def ended(self, session: StompSession) -> None:
        """Note that a client has gone."""
        self._declined.discard(session)
        asked = self._asked.pop(session, None)
        if asked is not None and self._running is not None:
            moved = self._running.moved
            moved[asked.to] = moved.get(asked.to, 0) + 1

    def each_second(self) -> None:
        """Ask some of the clients that are to go."""
        self._expire()
        running = self._running
        if running is None:
            return
        wanted = self._wanted(running)
        if not wanted and not self._asked:
            self._end("done")
        elif self._clock() > running.began + _PATIENCE_S + sum(running.planned.values()) / PER_SECOND:
            self._end("incomplete")
        elif wanted:
            self._ask_some(wanted)

    def choices(self) -> Iterator[Choice]:
        """The place of each client if all were rebalanced now."""
        running = self._running
        return self._choices(plan(*self._present()) if running is None else self._wanted(running))

    def report(self) -> RebalanceReport:
        """The effect of a rebalancing now, and former ones."""
        own, others = self._present()
        most = most_of(own, others)
        planned = plan(own, others)
        stays = Counter(one.stays for one in self.choices())
        loads = [(self._name, own), *sorted(others.items())]
        return RebalanceReport(
            broker=self._name,
            share=most,
            moves=stays.pop("", 0),
            brokers=[
                BrokerLoad(
                    broker=name, clients=clients, gets=planned.get(name, 0), surplus=max(0, clients - most)
                )
                for name, clients in loads
            ],
            stays=dict(sorted(stays.items())),
            running=self._running,
            history=list(reversed(self._history)),
        )

    def _present(self) -> tuple[int, dict[str, int]]:
        """The clients here, and of the others that are offered; who was asked counts as gone."""
        going = Counter(asked.to for asked in self._asked.values())
        others = {
            broker: clients + going[broker]
            for broker, clients in self._counts().items()
            if self._is_offered(broker)
        }
        return len(self._sessions) - len(self._asked), others

    def _wanted(self, running: Rebalancing) -> dict[str, int]:
        """The number of clients that are still to be asked to go to each broker."""
        going = Counter(asked.to for asked in self._asked.values())
        wanted = {
            broker: number - running.moved.get(broker, 0) - going[broker]
            for broker, number in running.planned.items()
        }
        return {broker: number for broker, number in wanted.items() if number > 0}

    def _choices(self, wanted: Mapping[str, int]) -> Iterator[Choice]:
        left = dict(wanted)
        for session in list(self._sessions):
            if not session.peer.connection:
                continue  # it has not logged in
            stays = self._obstacle(session)
            to, address = ("", "") if stays else self._target(session, left)
            if to:
                left[to] -= 1
            elif not stays:
                stays = "no-address" if any(left.values()) and self._may_go(session) else "not-needed"
            yield Choice(session, to, address, stays)

    def _target(self, session: StompSession, left: Mapping[str, int]) -> tuple[str, str]:
        """The broker that takes a client, and its address for the client's transport."""
        lists = self._lists_of(session)
        for broker, number in left.items() if self._may_go(session) else ():
            address = same_kind(lists.uris_of(broker), session.peer_name) if number > 0 else ""
            if address:
                return broker, address
        return "", ""

    def _may_go(self, session: StompSession) -> bool:
        """Return whether the clients of its listener are moved now."""
        return self._only is None or self._lists_of(session) in self._only

    def _obstacle(self, session: StompSession) -> Stays:
        peer = session.peer
        if session in self._asked:
            return "asked"
        if session in self._declined:
            return "declined"
        if list_subscription(session) is None or not self._lists_of(session).settings.updates:
            return "no-list"
        if session.conversation.prefers_this_broker:
            return "priority"
        if peer.transactions:
            return "transaction"
        return "deliveries" if peer.unsettled else ""

    def _ask_some(self, wanted: Mapping[str, int]) -> None:
        left = PER_SECOND
        for choice in self._choices(wanted):
            subscription = list_subscription(choice.session)
            if choice.to and subscription is not None:
                self._ask(choice.session, subscription, choice.address)
                self._asked[choice.session] = _Asked(choice.to, self._clock())
                left -= 1
            if not left:
                break

    def _expire(self) -> None:
        """Have others asked instead of clients that have stayed."""
        latest = self._clock() - ANSWER_S
        for session in [one for one, asked in self._asked.items() if asked.at < latest]:
            del self._asked[session]
            self._declined.add(session)
            if self._running is not None:
                self._running.declined += 1

    def _end(self, state: RebalancingState) -> None:
        running, self._running = self._running, None
        self._only = None
        if running is not None:
            running.state, running.ended = state, self._clock()
            self._history.append(running)
            self._report(REBALANCING_ENDED, state=state, moved=_listed(running.moved) or "none")


def list_subscription(session: StompSession) -> Subscription | None:
    """The subscription of a client to the list of brokers."""
    subscriptions = session.peer.subscriptions.values()
    return next((one for one in subscriptions if one.address == ADDRESSES), None)


def same_kind(uris: Sequence[str], peer_name: str) -> str:
    """The address of a broker for the transport of a client; empty without one."""
    kinds = ("ws", "stomp") if peer_name.startswith("websocket") else ("stomp", "ws")
    return next((uri for kind in kinds for uri in uris if uri.startswith(kind)), "")


def _listed(numbers: Mapping[str, int]) -> str:
    return ", ".join(f"{number} to {broker}" for broker, number in numbers.items())
