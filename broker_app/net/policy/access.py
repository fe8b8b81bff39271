"""Who may do what: the one place that is asked, by every transport, against the policy of the moment.

An administrator may do all. Everybody else may do what the rules allow, and, where a token stands in for the
password, of that only what its grants name. What was decided is remembered until the policy changes, so that
asking again costs a microsecond.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Iterable, MutableMapping
from typing import Any, NamedTuple
from urllib.parse import quote

from broker_app.core.destination import (
    QUEUE,
    TEMP_QUEUE,
    TEMP_TOPIC,
    TOPIC,
    Destination,
    is_reserved,
    parse,
    topic_of_dead_letters,
)
from broker_app.core.errors import Refused
from broker_app.net import problems
from broker_app.net.auth.login import Identity, Logins
from broker_app.net.policy.policy import ADMINISTER, Grant, Policy
from broker_app.rules.decision import Decision
from broker_app.rules.event import BROWSE, MANAGE, METHODS, READ, RECEIVE, SEND, Event
from mom_client.storeandforward import PREFIX

_VERBS = {
    SEND: "send to",
    RECEIVE: "receive from",
    BROWSE: "browse",
    READ: "read the messages of",
    MANAGE: "manage",
}
#: where clients hear of other brokers to go to: for everybody who is logged in
_FOR_ALL = Destination(TOPIC, "$mom.failover")
#: who decides about its own names, and about those who have gone
_BROKER, _UNKNOWN = "the broker", "the login"
_TOKEN = "token "
_TEMPORARY = (TEMP_QUEUE, TEMP_TOPIC)
#: destinations that are looked at in one go
_RUN = 500


class Way(NamedTuple):
    """How a client came here, as rules may ask: protocol, IP address if it is known, whether TLS protects the
    connection, and STOMP's client-id."""

    protocol: str
    address: str | None = None
    tls: bool = False
    client: str | None = None

    @classmethod
    def of_scope(cls, protocol: str, scope: MutableMapping[str, Any], *, behind_tls: bool) -> Way:
        """That of an ASGI connection; `behind_tls` says that a proxy ends TLS before us."""
        peer = scope.get("client")
        tls = behind_tls or scope.get("scheme") in ("https", "wss")
        return cls(protocol, peer[0] if peer else None, tls)


class Client(NamedTuple):
    """Who asks, and how it came here."""

    identity: Identity
    way: Way


class _Verdict(NamedTuple):
    """What was decided: by which event and rule if rules were asked, and who decided, for people."""

    allowed: bool
    decided_by: str
    event: Event | None = None
    decision: Decision | None = None


class _Everything(Container[str]):
    def __contains__(self, item: object) -> bool:
        return True


_ALL = _Everything()


class _NothingForwarded(Container[str]):
    """The addresses that are open to all where there are no rules: what waits for another broker is not."""

    _CLOSED = f"/{QUEUE}/{PREFIX}"

    def __contains__(self, item: object) -> bool:
        return not (isinstance(item, str) and item.startswith(self._CLOSED))


_NOT_FORWARDED = _NothingForwarded()


class Access:
    """Asked before a deed. `note` hears of each decision that rules took."""

    #: verdicts remembered
    MAX_KNOWN = 50_000

    def __init__(self, logins: Logins, note: Callable[[Event, Decision], object] | None = None) -> None:
        self._logins = logins
        self._note = note
        self._known: dict[tuple[Client, str, Destination], _Verdict] = {}
        self._adopt(logins.policy)

    def check(self, client: Client, right: str, destination: Destination) -> None:
        """Refused("not-allowed"), with the facts of the refusal, when the client may not do it."""
        verdict = self._verdict(client, right, destination)
        if self._note is not None and verdict.event is not None and verdict.decision is not None:
            self._note(verdict.event, verdict.decision)
        if not verdict.allowed:
            raise _refusal(client, right, destination, verdict.decided_by)

    def recheck(self, client: Client, right: str, destination: Destination) -> None:
        """The same once more, for a deed that had to wait since it was checked; nobody is told."""
        refusal = self.refusal(client, right, destination)
        if refusal is not None:
            raise refusal

    def refusal(self, client: Client, right: str, destination: Destination) -> Refused | None:
        """Why the client may not go on with something; None when it may."""
        verdict = self._verdict(client, right, destination)
        if verdict.allowed:
            return None
        return _refusal(client, right, destination, verdict.decided_by)

    def login_refusal(self, client: Client) -> Refused | None:
        """Why the client may not go on at all; None when it may. What waits may be older than the policy."""
        return None if self._logins.goes_on(client.identity) else _gone(client)

    def allows(self, client: Client, right: str, destination: Destination) -> bool:
        """Whether the client may do it, for lists; nobody is told."""
        return self._verdict(client, right, destination).allowed

    def question(self, client: Client, right: str, destination: Destination) -> Event | None:
        """What rules are asked when the client wants this; None where it is decided without them."""
        return self._verdict(client, right, destination).event

    def is_unbound(self, identity: Identity) -> bool:
        """Whether it may do all to every destination: it is an administrator's, with all his rights. That
        there are no rules is not enough, for queues of store and forward are open by rules alone."""
        self._look_at_policy()
        return self._granted(identity) is None and self._is_owner_admin(identity)

    def is_unruled(self, identity: Identity) -> bool:
        """Whether nothing keeps it from what has no destination, such as connections of others: it is
        unbound, or there are no rules and no grants of a token."""
        self._look_at_policy()
        if self._granted(identity) is not None:
            return False
        return self._is_owner_admin(identity) or not self._policy.rules

    def view(self, client: Client) -> Container[str] | None:
        """The addresses that the client may browse, where that can be said without looking at each of them;
        None where it cannot."""
        if self.is_unbound(client.identity):
            return _ALL
        return _NOT_FORWARDED if self.is_unruled(client.identity) else None

    async def visible(self, client: Client, addresses: Iterable[str]) -> Container[str]:
        """Those of the addresses that the client may browse. Others have their turn meanwhile."""
        view = self.view(client)
        if view is not None:
            return view
        found: set[str] = set()
        for at, address in enumerate(addresses, 1):
            # Not remembered: a list would crowd out what is asked again and again.
            if self._decide(client, BROWSE, parse(address)).allowed:
                found.add(address)
            if at % _RUN == 0:
                await asyncio.sleep(0)
                self._look_at_policy()
        return found

    def is_admin(self, identity: Identity) -> bool:
        """Whether it may do what only administrators may. A token may where it was given that right."""
        self._look_at_policy()
        grants = self._granted(identity)
        administers = grants is None or any(ADMINISTER in grant.rights for grant in grants)
        return administers and self._is_owner_admin(identity)

    def is_wholly(self, identity: Identity, user: str) -> bool:
        """Whether it is this user with all his rights, whose doings are its own; a token that lends a part of
        them is not."""
        self._look_at_policy()
        return identity.user == user and self._granted(identity) is None

    def may_manage_of_others(self, client: Client, destination: Destination) -> bool:
        """Whether it may end what others have made of a destination: an administrator, and whom a rule allows
        it. That there are no rules is not enough."""
        if self.is_admin(client.identity):
            return True
        verdict = self._verdict(client, MANAGE, destination)
        return verdict.allowed and bool(self._policy.rules)

    # ------------------------------------------------------------------ deciding

    def _verdict(self, client: Client, right: str, destination: Destination) -> _Verdict:
        self._look_at_policy()
        key = client, right, destination
        verdict = self._known.get(key)
        if verdict is None:
            verdict = self._decide(client, right, destination)
            if len(self._known) >= self.MAX_KNOWN:
                self._known.clear()
            self._known[key] = verdict
        return verdict

    def _decide(self, client: Client, right: str, destination: Destination) -> _Verdict:
        identity = client.identity
        if not self._logins.still_known(identity):
            return _Verdict(False, _UNKNOWN)
        before = decided_before_rules(
            identity.user,
            right,
            destination,
            admin=self._is_owner_admin(identity),
            token=identity.token,
            grants=self._granted(identity),
        )
        if before is not None:
            return _Verdict(before.allowed, before.because)
        event = self._event(client, right, destination)
        decision = self._policy.rules.decide(event)
        return _Verdict(decision.allowed, decision.reason, event, decision)

    def _event(self, client: Client, right: str, destination: Destination) -> Event:
        identity, way = client
        facts = self._policy.users.get(identity.user)
        return Event(
            user=identity.user,
            groups=facts.groups if facts is not None else frozenset(),
            **asked_of_rules(right, destination),
            address=way.address,
            protocol=way.protocol,
            tls=way.tls,
            client=way.client,
        )

    def _is_owner_admin(self, identity: Identity) -> bool:
        facts = self._policy.users.get(identity.user)
        return facts is not None and facts.admin

    def _granted(self, identity: Identity) -> tuple[Grant, ...] | None:
        """What its token is for: None where it lends all rights or there is none, nothing when it is gone."""
        if identity.token is None:
            return None
        return self._grants.get((identity.user, identity.token), ())

    def _look_at_policy(self) -> None:
        """Forget what was decided when the policy is another one by now."""
        if self._logins.policy is not self._policy:
            self._adopt(self._logins.policy)

    def _adopt(self, policy: Policy) -> None:
        self._policy = policy
        self._known.clear()
        self._grants = {(facts.user, facts.name): facts.grants for facts in policy.tokens.values()}


def decided_before_rules(
    user: str,
    right: str,
    destination: Destination,
    *,
    admin: bool,
    token: str | None = None,
    grants: tuple[Grant, ...] | None = None,
) -> Decision | None:
    """The decision that needs no rules, None where rules decide. `grants` are those of the `token` that is
    used as password; None where it lends all rights, or where there is no token."""
    fixed = _decided_for_all(right, destination)
    if fixed is not None and destination.kind not in _TEMPORARY:
        return fixed
    if grants is not None and not _lend(grants, right, destination):
        return Decision(False, because=f"{_TOKEN}{token}")
    if fixed is None and admin:
        return Decision(True, because=f"{user} is an administrator, who may do all")
    return fixed


def asked_of_rules(right: str, destination: Destination) -> dict[str, Any]:
    """The members of the event that rules decide: its method, and its queue or topic."""
    right, destination = governing(right, destination)
    return {
        "method": METHODS[right],
        "queue": destination.name if destination.kind == QUEUE else None,
        "topic": destination.name if destination.kind == TOPIC else None,
    }


def _decided_for_all(right: str, destination: Destination) -> Decision | None:
    """What holds for everybody, administrators too, whatever rules say; None where there is no such thing."""
    if right == SEND and is_reserved(destination.name):
        return Decision(False, because=_BROKER)
    if destination.kind in _TEMPORARY or (destination == _FOR_ALL and right == RECEIVE):
        return Decision(True, because=_BROKER)
    return None


def _lend(grants: Iterable[Grant], right: str, destination: Destination) -> bool:
    """Returns whether the grants of a token cover a right. Temporary destinations are for requests and
    answers, so any grant to send or to receive is enough."""
    if destination.kind in _TEMPORARY:
        return any(not grant.rights.isdisjoint((SEND, RECEIVE)) for grant in grants)
    right, destination = governing(right, destination)
    return any(grant.covers(right, destination) for grant in grants)


def governing(right: str, destination: Destination) -> tuple[str, Destination]:
    """The right that is asked for instead, and to what: the dead letters of a durable subscription are under
    the rights of its topic. Whoever consumes them takes them from others, so they have to be managed."""
    topic = topic_of_dead_letters(destination)
    if topic is None:
        return right, destination
    return (MANAGE if right == RECEIVE else right), topic


def _refusal(client: Client, right: str, destination: Destination, decided_by: str) -> Refused:
    user = client.identity.user
    if decided_by == _UNKNOWN:
        return _gone(client)
    asked_right, asked_of = governing(right, destination)
    what = f"{asked_of.kind}:{asked_of.name}"
    asked = f"user={quote(user, safe='')}&deed={METHODS[asked_right]}&destination={quote(what, safe=':')}"
    sentence = f"{user} may not {_VERBS[right]} {destination.kind} {destination.name}"
    if decided_by == _BROKER:
        sentence += ": names that begin with $ are the broker's own"
    if decided_by.startswith(_TOKEN):
        asked += f"&token={quote(decided_by.removeprefix(_TOKEN), safe='')}"
    return Refused(
        "not-allowed",
        sentence,
        right=asked_right,
        destination=what,
        decided_by=decided_by,
        explain=problems.address(f"/api/v1/explain?{asked}"),
    )


def _gone(client: Client) -> Refused:
    return Refused("not-authenticated", f"the login of {client.identity.user} is no longer valid")
