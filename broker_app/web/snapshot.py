"""Snapshot: the models as an immutable Policy, and word of it when they change."""

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any, NoReturn

from django.conf import settings
from django.contrib.auth import get_user
from django.contrib.auth.hashers import check_password, make_password
from django.contrib.auth.models import AnonymousUser, User
from django.db import DatabaseError, connection, transaction
from django.db.models import Q
from django.http import HttpRequest
from django.utils import timezone

from broker_app import models
from broker_app.config import Config, fault_of_override, overridden
from broker_app.models import AlertRule as AlertRuleRow
from broker_app.models import Broker, DestinationSettings, Entry, PolicyVersion, Token
from broker_app.net.auth.login import Logins
from broker_app.net.policy.destination_settings import Destinations, Own, node_values
from broker_app.net.policy.policy import Grant, Policy, TokenFacts, UserFacts
from broker_app.rules.errors import RuleError
from broker_app.rules.rule import Rule
from broker_app.rules.ruleset import Rules
from broker_app.telemetry.alerts.rule import AlertRule, rules_with
from broker_app.web.actions import note_use, policy_changed
from broker_app.web.auth import backends
from broker_app.web.auth.sessions import SessionStore
from broker_app.web.resource_types import reflexes
from broker_app.web.resource_types.bridges import remotes
from broker_app.web.resource_types.callbacks import callbacks
from broker_app.web.resource_types.masks import masks
from broker_app.web.roles import is_monitor

log = logging.getLogger(__name__)


def read_version() -> int:
    """The number of the newest change; 0 before the first."""
    return PolicyVersion.objects.filter(pk=PolicyVersion.ONLY).values_list("number", flat=True).first() or 0


class VersionReader:
    """Reads the version again and again, in one thread, which keeps its connection."""

    def __init__(self) -> None:
        self._version = 0
        #: what SQLite had shown before the version was read
        self._written: tuple[object, int] | None = None

    def read(self) -> int:
        """The number of the newest change. It is read when another connection has written to the file: to ask
        SQLite for that takes a twentieth of the time, and a broker asks three times a second."""
        written = self._written_by_others()
        if written is None or written != self._written:
            self._version = read_version()
            self._written = written
        return self._version

    def _written_by_others(self) -> tuple[object, int] | None:
        """A mark that differs after each commit of another connection; None for a database of another kind.
        The number of SQLite counts for one connection alone."""
        if connection.vendor != "sqlite":
            return None
        with connection.cursor() as cursor:
            return connection.connection, cursor.execute("PRAGMA data_version").fetchone()[0]


@transaction.atomic
def read_policy(anonymous: bool, former: Policy | None = None) -> Policy:
    """The models as they are now: one transaction, so all parts are of one version. What is as in `former`
    and was costly to make is taken from there."""
    # First: where a change comes between two statements, the version is of before, and all is read again.
    version = read_version()
    broker = read_broker()
    users = User.objects.filter(is_active=True).only("username", "password", "is_superuser", "is_staff")
    ended = Q(expires__lte=timezone.now())
    tokens = Token.objects.filter(~ended, owner__is_active=True).select_related("owner")
    return Policy(
        version=version,
        users={user.username: _facts_of(user) for user in users.prefetch_related("groups")},
        tokens={bytes(token.digest): _facts_of_token(token) for token in tokens},
        anonymous=anonymous,
        destinations=_read_destinations(overridden(settings.MOM, broker)),
        rules=read_rules(former),
        broker=broker,
        bridges=remotes(),
        callbacks=callbacks(),
        alerts=_read_alerts(),
        reflexes=reflexes.declarations(),
        masks=masks(),
    )


def _facts_of(user: User) -> UserFacts:
    groups = frozenset(group.name for group in user.groups.all())
    return UserFacts(user.username, user.password, user.is_superuser, groups, is_monitor(user))


def _facts_of_token(token: Token) -> TokenFacts:
    expires = token.expires.timestamp() if token.expires else None
    grants = None if token.grants is None else tuple(map(_grant, token.grants))
    return TokenFacts(token.owner.username, token.name, expires, grants)


def _grant(grant: dict[str, list[str]]) -> Grant:
    return Grant(frozenset(grant["rights"]), tuple(grant["destinations"]))


def read_rules(former: Policy | None = None) -> Rules:
    """The rules as they are now; those of `former` where nothing about them is new."""
    origins = dict(Entry.objects.filter(kind="rules").values_list("key", "origin"))
    found = tuple(_rule(row, origins.get(row.name, "")) for row in models.Rule.objects.all())
    return former.rules if former is not None and former.rules.rules == found else Rules(found)


def _rule(row: models.Rule, origin: str) -> Rule:
    return Rule(row.name, row.effect, row.conditions, tuple(row.users), tuple(row.groups), origin)


def read_broker() -> dict[str, object]:
    """The settings of this broker that this version of MOM knows."""
    overrides = Broker.objects.filter(name=settings.MOM.name).values_list("settings", flat=True).first() or {}
    faults = {name: fault for name, value in overrides.items() if (fault := fault_of_override(name, value))}
    for name, fault in faults.items():
        log.warning("setting %s of broker %s is not used: %s", name, settings.MOM.name, fault)
    return {name: value for name, value in overrides.items() if name not in faults}


def running_config() -> Config:
    """The settings of this broker now: those it was started with, and those that replace some of them."""
    return overridden(settings.MOM, read_broker())


def _read_alerts() -> tuple[AlertRule, ...]:
    rows = AlertRuleRow.objects.values_list("name", "values")
    return rules_with({name: AlertRule.of(name, spec) for name, spec in rows})


def _read_destinations(config: Config) -> Destinations:
    versions = dict(Entry.objects.filter(kind="destinations").values_list("key", "version"))
    rows = DestinationSettings.objects.values_list("address", "values")
    found = Destinations(
        {address: Own(values, versions.get(address, 1)) for address, values in rows},
        node_values(config),
    )
    _ = found.policies  # worked out here, in a thread, and not in the loop
    return found


def session_user(session_key: str) -> str | None:
    """The name of the user of this browser session. Blocks, and leaves its thread without a connection."""
    request = HttpRequest()
    request.session = SessionStore(session_key)
    try:
        user = get_user(request)
        return None if isinstance(user, AnonymousUser) else user.get_username()
    finally:
        connection.close()


def make_logins(anonymous: bool) -> Logins:
    """Logins over the policy of now, with Django's password hashes and browser sessions. Blocks."""
    return Logins(
        read_policy(anonymous),
        check_password,
        session_user,
        session_cookie=settings.SESSION_COOKIE_NAME,
        dummy_hash=make_password("no user has this password"),
        throttle=backends.LOGIN_THROTTLE,
    )


async def follow(
    known: Policy,
    take_used: Callable[[], Mapping[bytes, float]],
    reload: Callable[[Policy], object],
    interval_s: float = 0.3,
    note_every_s: float = 60.0,
) -> NoReturn:
    """Calls `reload` with the new policy after each change, for ever.

    A change by this process is noticed at once, one by another within `interval_s`. That a token ends is a
    change like any other: who is connected by it is, no longer. Writes down now and then, and at the end,
    which tokens were used.
    """
    loop = asyncio.get_running_loop()
    changed = asyncio.Event()

    def notice(**_: Any) -> None:
        loop.call_soon_threadsafe(changed.set)

    policy_changed.connect(notice)
    # A thread of its own keeps one database connection open instead of one for each thread of a pool.
    thread = ThreadPoolExecutor(1, thread_name_prefix="policy")
    version = VersionReader()
    note_at, ends = loop.time() + note_every_s, _next_end(known)
    try:
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), max(0.0, min(interval_s, ends - time.time())))
            changed.clear()
            try:
                ended = ends <= time.time()
                if await loop.run_in_executor(thread, version.read) != known.version or ended:
                    known = await loop.run_in_executor(thread, read_policy, known.anonymous, known)
                    ends = _next_end(known)
                    reload(known)
                if loop.time() >= note_at:
                    note_at = loop.time() + note_every_s
                    await loop.run_in_executor(thread, _note_use, take_used())
            except (DatabaseError, RuleError) as error:
                # Clients of the old policy are better served than none; the next round tries again.
                log.warning("cannot read the configuration database: %s", error)
                ends = max(ends, time.time() + interval_s)
    finally:
        policy_changed.disconnect(notice)
        thread.submit(_note_use, take_used())
        thread.submit(connection.close)
        thread.shutdown(wait=False)


def _next_end(policy: Policy) -> float:
    """The time when the first of the tokens expires, seconds since 1970."""
    return min((one.expires for one in policy.tokens.values() if one.expires is not None), default=math.inf)


def _note_use(used: Mapping[bytes, float]) -> None:
    try:
        if used:
            note_use({digest: datetime.fromtimestamp(time, UTC) for digest, time in used.items()})
    except DatabaseError as error:
        log.warning("it cannot be written down when tokens were used: %s", error)
