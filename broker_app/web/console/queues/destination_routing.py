"""The routing of a destination: permissions, reflexes, dead letters, bridges."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from django.contrib.auth.models import User
from django.http import HttpRequest

from broker_app.core.destination import DEAD_SUFFIX, QUEUE, Destination
from broker_app.models import DestinationSettings
from broker_app.net.policy.access import asked_of_rules, decided_before_rules
from broker_app.net.policy.destination_settings import Effective
from broker_app.rules.decision import Decision
from broker_app.rules.event import RECEIVE, SEND, Event
from broker_app.rules.ruleset import Rules
from broker_app.web.console.base.field_words import FieldWords
from broker_app.web.console.base.frame import sees_all
from broker_app.web.console.forwarding.reflex_status import all_reflexes, shown_reflex
from broker_app.web.console.queues.destination_patterns import addresses_about, settings_for
from broker_app.web.roles import is_monitor
from broker_app.web.snapshot import read_rules

MAX_USERS = 100
_BY_ADMINISTRATOR = "an administrator may do everything"


class AccessVerdict(NamedTuple):
    """A decision about access: allowed or not, the reason, and the name of the deciding rule, if any."""

    allowed: bool
    reason: str
    rule: str


class Permissions(NamedTuple):
    """Users with the same permissions for a destination, for the same reasons.

    Conditions on address or protocol are evaluated as unknown.
    """

    names: list[str]
    put: AccessVerdict
    take: AccessVerdict


def routing_of(request: HttpRequest, kind: str, name: str) -> dict[str, object]:
    """The context of the tab. Users who are not administrators see only themselves."""
    users = User.objects.filter(is_active=True).order_by("username").prefetch_related("groups")
    administrator = sees_all(request)
    if not administrator:
        users = users.filter(username=request.user.get_username())
    rules, destination = read_rules(), Destination(kind, name)
    spec, words = settings_for(kind, name), FieldWords("destinations")
    return {
        "permissions": _permissions(rules, users[:MAX_USERS], destination),
        "more_users": max(0, users.count() - MAX_USERS),
        "has_rules": len(rules) > 0,
        **(_reflexes_of(request, f"/{kind}/{name}") if administrator else {}),
        "dead_letters": _dead_letters(name, spec.effective(f"/{kind}/{name}")) if kind == QUEUE else None,
        "spec": [
            (address, [(words.label(one), words.value(one, value)) for one, value in values.items()])
            for address in addresses_about(kind, name)
            if address in spec.rows
            for values in (spec.rows[address].values,)
        ],
    }


def _reflexes_of(request: HttpRequest, address: str) -> dict[str, object]:
    """The reflexes that see the messages of a destination, in their order."""
    found, unknown = all_reflexes(request, address)
    return {
        "reflexes": [shown_reflex(row) for row in found["items"]] if found else [],
        "unknown_reflexes": unknown,
        "shows_reflexes": True,
    }


def _permissions(rules: Rules, users: Iterable[User], destination: Destination) -> list[Permissions]:
    """The users by what decides about them, in the order of the first of each."""
    groups: dict[tuple[AccessVerdict, AccessVerdict], list[str]] = {}
    for user in users:
        put, take = (_verdict(rules, user, right, destination) for right in (SEND, RECEIVE))
        groups.setdefault((put, take), []).append(user.username)
    return [Permissions(names, *verdicts) for verdicts, names in groups.items()]


def _verdict(rules: Rules, user: User, right: str, destination: Destination) -> AccessVerdict:
    before = decided_before_rules(
        user.username, right, destination, admin=user.is_superuser, monitor=is_monitor(user)
    )
    if before is not None and before.allowed and user.is_superuser:
        return AccessVerdict(True, _BY_ADMINISTRATOR, "")
    decision: Decision = before or rules.decide(
        Event(
            user=user.username,
            groups=frozenset(group.name for group in user.groups.all()),
            **asked_of_rules(right, destination),
        )
    )
    return AccessVerdict(decision.allowed, decision.reason, decision.rule.name if decision.rule else "")


def _dead_letters(name: str, effective: dict[str, Effective]) -> dict[str, object]:
    """The targets of dead letters and expired messages, and the queues whose dead letters are sent here."""
    target = effective["dead_letters"].value or f"{name}{DEAD_SUFFIX}"
    named = DestinationSettings.objects.filter(values__dead_letters=name, address__startswith="/queue/")
    coming = [address.removeprefix("/queue/") for address in named.values_list("address", flat=True)[:20]]
    if name.endswith(DEAD_SUFFIX):
        coming.insert(0, name.removesuffix(DEAD_SUFFIX))
    return {
        "kept": effective["use_dead_letters"].value and not name.endswith(DEAD_SUFFIX),
        "is_dead": name.endswith(DEAD_SUFFIX),
        "target": target,
        "attempts": effective["max_attempts"].value,
        "expired": effective["dead_letter_expired"].value,
        "coming": coming,
    }
