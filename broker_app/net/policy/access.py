"""Authorization: every transport checks here, against the current policy.

An administrator may do everything, and a monitor see everything (`roles`). Other users may do what the rules
allow. A token with grants may do only what the grants name. Verdicts are cached until the policy changes, so
that a repeated check costs a microsecond.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Iterable, MutableMapping
from typing import Any, NamedTuple
from urllib.parse import quote

from broker_app.base.refused import Refused
from broker_app.base.settings.transport_connectors import listener_of
from broker_app.base.system_topics import FAILOVER
from broker_app.core import client_address
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
from broker_app.features.masks.user_masks import NO_MASKS, UserMasks
from broker_app.net import problems
from broker_app.net.auth.login import Identity, Logins
from broker_app.net.policy.policy import ADMINISTER, READ_JOURNAL, READ_METRICS, Grant, Policy
from broker_app.net.policy.principal import Principal
from broker_app.net.policy.roles import MONITOR, MONITOR_SENTENCE, monitor_may, monitor_refusal
from broker_app.net.policy.system_topics import is_of_broker, is_open
from broker_app.rules.decision import Decision
from broker_app.rules.event import BROWSE, MANAGE, METHODS, READ, RECEIVE, SEND, WEBSOCKET, Event
from mom_client.storeandforward import PREFIX

_VERBS = {
    SEND: "send to",
    RECEIVE: "receive from",
    BROWSE: "browse",
    READ: "read the messages of",
    MANAGE: "manage",
}
#: the topic with the brokers to fail over to; every authenticated client may subscribe
_FOR_ALL = Destination(TOPIC, FAILOVER)
#: `decided_by` for reserved names, and for identities that no longer exist
_BROKER, _UNKNOWN = "the broker", "the login"
_TOKEN = "token "
_TEMPORARY = (TEMP_QUEUE, TEMP_TOPIC)
#: destinations that are checked before other tasks run
_RUN = 500


class ConnectionInfo(NamedTuple):
    """A connection as rules see it: protocol, IP address if it is known, whether TLS protects it, and STOMP's
    client-id."""

    protocol: str
    address: str | None = None
    tls: bool = False
    client: str | None = None

    @property
    def listener(self) -> str:
        """The listener to which the client has connected, by the scheme of its address."""
        return listener_of(websocket=self.protocol == WEBSOCKET, tls=self.tls)

    @classmethod
    def of_scope(cls, protocol: str, scope: MutableMapping[str, Any], *, behind_tls: bool) -> ConnectionInfo:
        """Return that of an ASGI connection; `behind_tls` is set if a proxy terminates TLS."""
        peer = scope.get("client")
        tls = behind_tls or scope.get("scheme") in ("https", "wss")
        return cls(protocol, peer[0] if peer else None, tls)


class Client(NamedTuple):
    """An authenticated client and its connection."""

    identity: Identity
    connection_info: ConnectionInfo

    @property
    def record_address(self) -> str:
        """Its `client_address`, for records of the journal."""
        return client_address.address_of(self.identity.user, self.connection_info.client or "")


class _Verdict(NamedTuple):
    """A cached decision, the event and rule if rules decided, and a text for `decided_by`."""

    allowed: bool
    decided_by: str
    event: Event | None = None
    decision: Decision | None = None


class _Everything(Container[str]):
    def __contains__(self, item: object) -> bool:
        return True


_ALL = _Everything()


class _Unruled(Container[str]):
    """The addresses that all users may use if there are no rules: all but store-and-forward queues, and the
    broker's own destinations."""

    _CLOSED = (f"/{QUEUE}/{PREFIX}", f"/{QUEUE}/$", f"/{TOPIC}/$")

    def __contains__(self, item: object) -> bool:
        if not (isinstance(item, str) and item.startswith(self._CLOSED)):
            return True
        return topic_of_dead_letters(parse(item)) is not None


_UNRULED = _Unruled()


class Access:
    """Checks permissions. `note` is called with each decision of a rule."""

    #: cached verdicts
    MAX_KNOWN = 50_000

    def __init__(self, logins: Logins, note: Callable[[Event, Decision], object] | None = None) -> None:
        self._logins = logins
        self._note = note
        self._known: dict[tuple[Client, str, Destination], _Verdict] = {}
        #: whether clients may send to any destination at all
        self._senders: dict[Client, bool] = {}
        #: the masks of the members of groups
        self._masks: dict[frozenset[str], UserMasks] = {}
        self._adopt(logins.policy)

    def check(self, client: Client, right: str, destination: Destination) -> None:
        """Raise Refused("not-allowed") if the client has no permission."""
        verdict = self._verdict(client, right, destination)
        if self._note is not None and verdict.event is not None and verdict.decision is not None:
            self._note(verdict.event, verdict.decision)
        if not verdict.allowed:
            raise _refusal(client, right, destination, verdict.decided_by)

    def recheck(self, client: Client, right: str, destination: Destination) -> None:
        """Check again an operation that had to wait since it was checked; the decision is not recorded."""
        refusal = self.refusal(client, right, destination)
        if refusal is not None:
            raise refusal

    def refusal(self, client: Client, right: str, destination: Destination) -> Refused | None:
        """The refusal if the client has lost the permission; None if it has it. Not recorded."""
        verdict = self._verdict(client, right, destination)
        if verdict.allowed:
            return None
        return _refusal(client, right, destination, verdict.decided_by)

    def login_refusal(self, client: Client) -> Refused | None:
        """The refusal if the login is no longer valid, for requests that are older than the policy; else
        None."""
        return None if self._logins.is_valid(client.identity) else _gone(client)

    def allows(self, client: Client, right: str, destination: Destination) -> bool:
        """Return True if the client has the permission, for lists. Not recorded."""
        return self._verdict(client, right, destination).allowed

    def check_may_send(self, client: Client) -> None:
        """Raise Refused("not-allowed") if there is no destination at all that the client may send to."""
        refusal = self.sending_refusal(client)
        if refusal is not None:
            raise refusal

    def sending_refusal(self, client: Client) -> Refused | None:
        """The refusal if there is no destination at all that the client may send to; else None."""
        self._refresh()
        may_send = self._senders.get(client)
        if may_send is None:
            if len(self._senders) >= self.MAX_KNOWN:
                self._senders.clear()
            may_send = self._senders[client] = self._may_send_anywhere(client)
        if may_send:
            return None
        return Refused(
            "not-allowed",
            f"{client.identity.user} may not send to any destination, so the message would reach no service: "
            "a rule has to allow it, and the token that is used, if any, has to grant it",
            right=SEND,
        )

    def _may_send_anywhere(self, client: Client) -> bool:
        identity = client.identity
        if not self._logins.is_known(identity):
            return False
        grants = self._granted(identity)
        if grants is not None and not any(SEND in grant.rights for grant in grants):
            return False
        if self._is_owner_monitor(identity):
            return False
        event = self._event(client, method=METHODS[SEND])
        return self._is_owner_admin(identity) or self._policy.rules.may_allow(event)

    def principal_of(self, client: Client) -> Principal:
        """The client as it is stored with what acts for it later."""
        identity, info = client
        return Principal(identity.user, identity.token, self._logins.token_id(identity), *info)

    def client_of(self, principal: Principal) -> Client | None:
        """The client that a stored principal is now; None if its user or its token has gone."""
        identity = self._logins.restored(principal.user, principal.token, principal.token_id)
        if identity is None:
            return None
        info = ConnectionInfo(principal.protocol, principal.address, principal.tls, principal.client)
        return Client(identity, info)

    def owner(self, user: str, protocol: str) -> Client | None:
        """The client as which acts what a user has configured; None if the user may not log in."""
        identity = self._logins.owner(user)
        return None if identity is None else Client(identity, ConnectionInfo(protocol))

    @property
    def policy(self) -> Policy:
        """The policy that decides now."""
        return self._logins.policy

    def event_of(self, client: Client, right: str, destination: Destination) -> Event | None:
        """The event that rules decide for this; None if it is decided without rules."""
        return self._verdict(client, right, destination).event

    def masks_of(self, client: Client) -> UserMasks:
        """The masks that hide values from the client when it looks at messages."""
        self._refresh()
        if not self._policy.masks or self.is_admin(client.identity):
            return NO_MASKS
        facts = self._policy.users.get(client.identity.user)
        groups = facts.groups if facts is not None else frozenset[str]()
        if groups not in self._masks:
            masks = (mask for mask in self._policy.masks if groups.isdisjoint(mask.groups))
            self._masks[groups] = UserMasks(masks)
        return self._masks[groups]

    def unmasked(self, client: Client, address: str) -> tuple[str, ...]:
        """The masks of an address that hide nothing from the client."""
        hidden = self.masks_of(client).covers(address)
        return tuple(name for name in UserMasks(self._policy.masks).covers(address) if name not in hidden)

    def has_full_access(self, identity: Identity) -> bool:
        """Return True for an administrator without restricting grants, who may use every destination. Other
        users need a rule for store-and-forward queues even if there are no rules at all."""
        self._refresh()
        return self._granted(identity) is None and self._is_owner_admin(identity)

    def sees_everything(self, identity: Identity) -> bool:
        """Return True for an administrator or a monitor without restricting grants, who may browse every
        destination."""
        self._refresh()
        return self._granted(identity) is None and self._owner_sees_all(identity)

    def is_unruled(self, identity: Identity) -> bool:
        """Return True if the identity may see what has no destination, such as others' connections: an
        administrator, a monitor, or any user if there are no rules; always without grants of a token."""
        self._refresh()
        if self._granted(identity) is not None:
            return False
        return self._owner_sees_all(identity) or not self._policy.rules

    def view(self, client: Client) -> Container[str] | None:
        """The addresses that the client may browse if that does not need a check of each; else None."""
        if self.sees_everything(client.identity):
            return _ALL
        return _UNRULED if self.is_unruled(client.identity) else None

    async def visible(self, client: Client, addresses: Iterable[str]) -> Container[str]:
        """Return the addresses that the client may browse; other tasks run in between."""
        view = self.view(client)
        if view is not None:
            return view
        found: set[str] = set()
        for at, address in enumerate(addresses, 1):
            # Not cached: a list would evict what is checked often.
            if self._decide(client, BROWSE, parse(address)).allowed:
                found.add(address)
            if at % _RUN == 0:
                await asyncio.sleep(0)
                self._refresh()
        return found

    def is_admin(self, identity: Identity) -> bool:
        """Return True for an administrator; with a token only if it has the right `administer`."""
        return self._is_granted(identity, ADMINISTER) and self._is_owner_admin(identity)

    def sees_as_admin(self, identity: Identity) -> bool:
        """Return True for an administrator or a monitor; with a token only if it has the right
        `administer`."""
        return self._is_granted(identity, ADMINISTER) and self._owner_sees_all(identity)

    def may_read_journal(self, identity: Identity) -> bool:
        """Return True for an administrator or a monitor; with a token only if it has the right
        `journal:read`."""
        return self._is_granted(identity, READ_JOURNAL) and self._owner_sees_all(identity)

    def may_read_metrics(self, identity: Identity) -> bool:
        """Return True for an administrator or a monitor; with a token only if it has the right
        `metrics:read`."""
        return self._is_granted(identity, READ_METRICS) and self._owner_sees_all(identity)

    def check_may_change(self, client: Client, what: str = "do this") -> None:
        """Raise Refused("not-allowed") for a monitor."""
        self._refresh()
        if self._is_owner_monitor(client.identity):
            raise monitor_refusal(client.identity.user, what)

    def _is_granted(self, identity: Identity, right: str) -> bool:
        """Return True unless a token is used that does not grant the right."""
        self._refresh()
        grants = self._granted(identity)
        return grants is None or any(right in grant.rights for grant in grants)

    def has_all_rights_of(self, identity: Identity, user: str) -> bool:
        """Return True if the identity is this user with all rights; a token with grants is not."""
        self._refresh()
        return identity.user == user and self._granted(identity) is None

    def is_own(self, identity: Identity, user: str, token: str | None) -> bool:
        """Return True if what a user, by a token or without one, has created is the identity's: it has all
        rights of that user, or uses the same token."""
        same_token = bool(token) and identity.user == user and identity.token == token
        return same_token or self.has_all_rights_of(identity, user)

    def narrow_token(self, identity: Identity) -> str:
        """The token of an identity that has not all rights of its user; else empty."""
        self._refresh()
        return "" if self._granted(identity) is None else identity.token or ""

    def may_manage_of_others(self, client: Client, destination: Destination) -> bool:
        """Return True if the client may end what other users created for a destination: an administrator, or
        a client that a rule allows to manage it. The absence of rules is not enough."""
        if self.is_admin(client.identity):
            return True
        verdict = self._verdict(client, MANAGE, destination)
        return verdict.allowed and bool(self._policy.rules)

    # ------------------------------------------------------------------ deciding

    def _verdict(self, client: Client, right: str, destination: Destination) -> _Verdict:
        self._refresh()
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
        if not self._logins.is_known(identity):
            return _Verdict(False, _UNKNOWN)
        before = decided_before_rules(
            identity.user,
            right,
            destination,
            admin=self._is_owner_admin(identity),
            monitor=self._is_owner_monitor(identity),
            token=identity.token,
            grants=self._granted(identity),
        )
        if before is not None:
            return _Verdict(before.allowed, before.because)
        event = self._event(client, **asked_of_rules(right, destination))
        decision = self._policy.rules.decide(event)
        return _Verdict(decision.allowed, decision.reason, event, decision)

    def _event(self, client: Client, **asked: Any) -> Event:
        identity, connection_info = client
        facts = self._policy.users.get(identity.user)
        return Event(
            user=identity.user,
            groups=facts.groups if facts is not None else frozenset(),
            **asked,
            address=connection_info.address,
            protocol=connection_info.protocol,
            tls=connection_info.tls,
            client=connection_info.client,
        )

    def _is_owner_admin(self, identity: Identity) -> bool:
        facts = self._policy.users.get(identity.user)
        return facts is not None and facts.admin

    def _is_owner_monitor(self, identity: Identity) -> bool:
        facts = self._policy.users.get(identity.user)
        return facts is not None and facts.monitor

    def _owner_sees_all(self, identity: Identity) -> bool:
        return self._is_owner_admin(identity) or self._is_owner_monitor(identity)

    def _granted(self, identity: Identity) -> tuple[Grant, ...] | None:
        """The grants of its token: None if it has all rights or there is no token, () if it was deleted."""
        if identity.token is None:
            return None
        return self._grants.get((identity.user, identity.token), ())

    def _refresh(self) -> None:
        """Clear the cache if the policy has changed."""
        if self._logins.policy is not self._policy:
            self._adopt(self._logins.policy)

    def _adopt(self, policy: Policy) -> None:
        self._policy = policy
        self._known.clear()
        self._senders.clear()
        self._masks.clear()
        self._grants = {(facts.user, facts.name): facts.grants for facts in policy.tokens.values()}


def decided_before_rules(
    user: str,
    right: str,
    destination: Destination,
    *,
    admin: bool,
    monitor: bool = False,
    token: str | None = None,
    grants: tuple[Grant, ...] | None = None,
) -> Decision | None:
    """The decision that needs no rules; None if rules decide. `grants` are those of the `token` that is used
    as password; None if it has all rights, or if there is no token."""
    fixed = _decided_for_all(right, destination)
    if fixed is not None and destination.kind not in _TEMPORARY:
        return fixed
    if grants is not None and not _grant(grants, right, destination):
        return Decision(False, because=f"{_TOKEN}{token}")
    if monitor:
        return Decision(monitor_may(right, destination), because=MONITOR_SENTENCE)
    if fixed is None and admin:
        return Decision(True, because=f"{user} is an administrator, who may do everything")
    if fixed is None and is_of_broker(destination):
        return Decision(is_open(right, destination), because=_BROKER)
    return fixed


def asked_of_rules(right: str, destination: Destination) -> dict[str, Any]:
    """The members of an event that follow from right and destination: its method, and its queue or topic."""
    right, destination = governing(right, destination)
    return {
        "method": METHODS[right],
        "queue": destination.name if destination.kind == QUEUE else None,
        "topic": destination.name if destination.kind == TOPIC else None,
    }


def _decided_for_all(right: str, destination: Destination) -> Decision | None:
    """The decision that applies to all users, administrators included, whatever the rules are; else None."""
    if right == SEND and is_reserved(destination.name):
        return Decision(False, because=_BROKER)
    if destination.kind in _TEMPORARY or (destination == _FOR_ALL and right == RECEIVE):
        return Decision(True, because=_BROKER)
    return None


def _grant(grants: Iterable[Grant], right: str, destination: Destination) -> bool:
    """Return True if the grants of a token cover a right. Temporary destinations are for replies, so any
    grant to send or to receive is enough."""
    if destination.kind in _TEMPORARY:
        return any(not grant.rights.isdisjoint((SEND, RECEIVE)) for grant in grants)
    right, destination = governing(right, destination)
    return any(grant.covers(right, destination) for grant in grants)


def governing(right: str, destination: Destination) -> tuple[str, Destination]:
    """The right and destination that are checked instead: for dead letters of a durable subscription, those
    of its topic. To consume them takes them away from others, so it needs the right to manage."""
    topic = topic_of_dead_letters(destination)
    if topic is None:
        return right, destination
    return (MANAGE if right == RECEIVE else right), topic


def _refusal(client: Client, right: str, destination: Destination, decided_by: str) -> Refused:
    user = client.identity.user
    if decided_by == _UNKNOWN:
        return _gone(client)
    needed_right, needed_at = governing(right, destination)
    what = f"{needed_at.kind}:{needed_at.name}"
    query = f"user={quote(user, safe='')}&action={METHODS[needed_right]}&destination={quote(what, safe=':')}"
    sentence = f"{user} may not {_VERBS[right]} {destination.kind} {destination.name}"
    if decided_by == _BROKER:
        sentence += ": names that begin with $ are the broker's own, for administrators"
    facts = {}
    if decided_by == MONITOR_SENTENCE:
        sentence += f": {MONITOR_SENTENCE}"
        facts = {"role": MONITOR}
    if decided_by.startswith(_TOKEN):
        query += f"&token={quote(decided_by.removeprefix(_TOKEN), safe='')}"
    return Refused(
        "not-allowed",
        sentence,
        right=needed_right,
        destination=what,
        decided_by=decided_by,
        explain=problems.address(f"/api/v1/explain?{query}"),
        **facts,
    )


def _gone(client: Client) -> Refused:
    return Refused("not-authenticated", f"the login of {client.identity.user} is no longer valid")
