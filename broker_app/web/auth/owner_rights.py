"""The rights of a user by the configuration as it is saved, for what is to act for that user."""

from __future__ import annotations

from django.contrib.auth.models import User

from broker_app.core.destination import parse
from broker_app.net.policy.access import asked_of_rules, decided_before_rules
from broker_app.rules.event import CALLBACK, METHODS, RECEIVE, Event
from broker_app.web.roles import is_monitor
from broker_app.web.snapshot import read_rules


def refusal(name: str, address: str, right: str = RECEIVE) -> str:
    """The reason why a user may not do something with a destination by a callback; empty if that is
    allowed."""
    user = User.objects.filter(username=name, is_active=True).prefetch_related("groups").first()
    if user is None:
        return f"{name} is no user that may log in"
    destination = parse(address)
    decision = decided_before_rules(
        name, right, destination, admin=user.is_superuser, monitor=is_monitor(user)
    )
    if decision is None:
        groups = frozenset(group.name for group in user.groups.all())
        asked = asked_of_rules(right, destination)
        decision = read_rules().decide(Event(name, groups, **asked, protocol=CALLBACK))
    if decision.allowed:
        return ""
    return f"{name} has no right to {METHODS[right]} {destination.kind} {destination.name}: {decision.reason}"
