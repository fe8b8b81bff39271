"""The impact of an edit of rules or users: on the decisions of 24 hours, and on connected clients."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypedDict

from broker_app.net.policy.decisions import Decided
from broker_app.net.policy.roles import MONITOR_RIGHTS, MONITOR_SENTENCE
from broker_app.node.active_use import ActiveUse
from broker_app.rules.decision import Decision
from broker_app.rules.event import SEND, Event
from broker_app.rules.rule import Rule
from broker_app.rules.ruleset import Rules
from broker_app.web.actions import Changed
from broker_app.web.events import EventFacts, shown
from broker_app.web.policy_sync import ask
from broker_app.web.resource_types import RESOURCE_TYPES, Spec

if TYPE_CHECKING:
    from broker_app.node.node import Node

#: of what would turn into its opposite, and of clients that would lose something
MAX_SHOWN = 100
PREVIEW_TIMEOUT_S = 5.0

#: decisions that are checked before the time is checked
_RUN = 20


class LostAction(TypedDict):
    """An action that a client may do now, and could not any more, and the rule that decides it."""

    right: str | None
    destination: str | None
    decided_by: str


class AffectedClient(TypedDict):
    """A connected client that would lose something."""

    connection: str
    user: str | None
    address: str | None
    protocol: str | None
    tls: bool | None
    client: str | None
    loses: list[LostAction]


class TurnedEvent(EventFacts):
    """An event whose decision would turn, how often it was decided, and the reasons then and now."""

    times: int
    decided_by: str
    until_now: str


class DecisionChanges(TypedDict):
    """Numbers of decisions, and the most frequent events of those that turn."""

    allowed_stay: int
    denied_stay: int
    become_denied: int
    become_allowed: int
    left_out: int
    would_be_denied: list[TurnedEvent]
    would_be_allowed: list[TurnedEvent]


class Impact(TypedDict):
    """Changes that edits would make for decisions and for connected clients."""

    decisions: DecisionChanges
    clients_affected: int
    clients_left_out: int
    clients: list[AffectedClient]


class Decider(Protocol):
    """Rules, or what decides like them."""

    def decide(self, event: Event) -> Decision: ...


def impact(
    now: Decider,
    then: Decider,
    decided: Iterable[Decided],
    connected: Sequence[ActiveUse],
    clock: Callable[[], float] = time.monotonic,
) -> Impact:
    """`now` and `then` decide the same events. Counts are of decisions, lists of different events.

    Takes up to `PREVIEW_TIMEOUT_S` where thousands of rules have no names that an index could use; what was
    not examined by then is counted as left out. To be called in a thread.
    """
    deadline = clock() + PREVIEW_TIMEOUT_S
    rows = list(decided)
    clients: list[AffectedClient] = []
    seen = 0
    for using, uses in _uses(rows, connected):
        if clock() > deadline:
            break
        seen += 1
        if lost := _lost(now, then, uses):
            who = shown(using.who)
            clients.append(
                {
                    "connection": using.connection,
                    "user": who["user"],
                    "address": who["address"],
                    "protocol": who["protocol"],
                    "tls": who["tls"],
                    "client": who["client"],
                    "loses": lost,
                }
            )
    turned = _Turned()
    for at, row in enumerate(rows):
        if at % _RUN == 0 and clock() > deadline:
            turned.left_out = sum(row.times for row in rows[at:])
            break
        turned.add(row, now.decide(row.event), then.decide(row.event))
    return {
        "decisions": turned.summary(),
        "clients_affected": len(clients),
        "clients_left_out": len(connected) - seen,
        "clients": clients[:MAX_SHOWN],
    }


class _Turned:
    """Decisions that stay, and those that turn into their opposite."""

    def __init__(self) -> None:
        self._stay = {True: 0, False: 0}
        self._turn = {True: 0, False: 0}
        self._events: dict[bool, list[TurnedEvent]] = {True: [], False: []}
        self.left_out = 0

    def add(self, row: Decided, before: Decision, after: Decision) -> None:
        if before.allowed == after.allowed:
            self._stay[after.allowed] += row.times
            return
        self._turn[after.allowed] += row.times
        self._events[after.allowed].append(
            {**shown(row.event), "times": row.times, "decided_by": after.reason, "until_now": before.reason}
        )

    def summary(self) -> DecisionChanges:
        """As JSON, the most frequent events first."""
        for events in self._events.values():
            events.sort(key=lambda one: -one["times"])
        return {
            "allowed_stay": self._stay[True],
            "denied_stay": self._stay[False],
            "become_denied": self._turn[False],
            "become_allowed": self._turn[True],
            "left_out": self.left_out,
            "would_be_denied": self._events[False][:MAX_SHOWN],
            "would_be_allowed": self._events[True][:MAX_SHOWN],
        }


def of_changes(node: Node | None, changed: Iterable[Changed]) -> Impact | None:
    """The impact of edits that were only tried; None where they are about neither rules nor users.

    Without a node in this process nothing is known of decisions and clients. Raises Refused.
    """
    changed = list(changed)
    rules = {change.key: change.after for change in changed if change.kind == "rules"}
    users = {change.key: change for change in changed if change.kind == "users"}
    if not rules and not users:
        return None
    specs = RESOURCE_TYPES["rules"].read()
    now = _Deciding(rules_of(specs), {user: change.before for user, change in users.items()})
    then = _Deciding(edited(specs, rules), {user: change.after for user, change in users.items()})
    decided = node.decisions.decided() if node is not None else []
    connected = ask(node, node.in_use()) if node is not None else []
    return impact(now, then, decided, connected)


class _Deciding:
    """Rules, and the specs of some users; None for one that does not exist."""

    def __init__(self, rules: Rules, users: Mapping[str, Spec | None]) -> None:
        self._rules, self._users = rules, users

    def decide(self, event: Event) -> Decision:
        if event.user not in self._users:
            return self._rules.decide(event)
        spec = self._users[event.user]
        if spec is None or not spec["active"]:
            return Decision(False, because=f"{event.user} could not log in")
        if spec["administrator"]:
            return Decision(True, because="an administrator may do all")
        if spec["monitor"]:
            looks = event.right in MONITOR_RIGHTS
            return Decision(looks, because=MONITOR_SENTENCE)
        return self._rules.decide(event._replace(groups=frozenset(spec["groups"])))


def edited(specs: Mapping[str, Spec], edits: Mapping[str, Spec | None]) -> Rules:
    """The rules of `specs`, by name, after these edits; None deletes a rule. Raises RuleError."""
    return rules_of({name: one for name, one in {**specs, **edits}.items() if one is not None})


def rules_of(specs: Mapping[str, Spec]) -> Rules:
    """Rules out of their documents, in the order of their positions. Raises RuleError."""
    ordered = sorted(specs.items(), key=lambda item: (item[1]["position"], item[0]))
    return Rules([rule_of(name, one) for name, one in ordered])


def rule_of(name: str, spec: Spec, source: str = "") -> Rule:
    return Rule(name, spec["effect"], spec["conditions"], tuple(spec["users"]), tuple(spec["groups"]), source)


def _uses(
    rows: Sequence[Decided], connected: Iterable[ActiveUse]
) -> Iterator[tuple[ActiveUse, Iterable[Event]]]:
    """Each connection with what it uses: its subscriptions, and the destinations it has sent to."""
    sent: defaultdict[Hashable, list[Decided]] = defaultdict(list)
    for row in rows:
        if row.event.right == SEND:
            sent[_event_facts(row.event)].append(row)
    for using in connected:
        events = [row.event for row in sent[_event_facts(using.who)] if row.last_s >= using.since_s]
        yield using, dict.fromkeys([*using.receives, *events])


def _lost(now: Decider, then: Decider, events: Iterable[Event]) -> list[LostAction]:
    """The first actions that would not be allowed any more."""
    lost: list[LostAction] = []
    for event in events:
        after = then.decide(event)
        if not after.allowed and now.decide(event).allowed:
            what = shown(event)
            lost.append(
                {"right": what["right"], "destination": what["destination"], "decided_by": after.reason}
            )
            if len(lost) == MAX_SHOWN:
                break
    return lost


def _event_facts(event: Event) -> Hashable:
    return event.user, event.address, event.protocol, event.tls, event.client
