"""Shell completion: names of resources at the selected broker, and words known locally.

Errors complete nothing, because the command is not finished.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import typer
from typer.core import CompletionItem, TyperCommand  # type: ignore[attr-defined]

from broker_app import config
from broker_app.cli.base import contexts
from broker_app.cli.base.failures import Failure
from broker_app.cli.base.help_texts import literal
from broker_app.cli.base.output import FORMATS
from broker_app.cli.configuration import resource_types

if TYPE_CHECKING:
    from broker_app.cli.configuration.resource_types import ResourceType

_MAX_NAMES = 100
_TIMEOUT_S = 2.0


def formats(incomplete: str) -> list[str]:
    return _with_prefix(incomplete, FORMATS)


def context_names(incomplete: str) -> list[str]:
    try:
        return _with_prefix(incomplete, sorted(contexts.Contexts().known))
    except Failure:
        return []


def queues(ctx: typer.Context, incomplete: str) -> list[str]:
    return _names(ctx, "/queues", incomplete, q=incomplete or None)


def topics(ctx: typer.Context, incomplete: str) -> list[str]:
    return _names(ctx, "/topics", incomplete, q=incomplete or None)


def destinations(ctx: typer.Context, incomplete: str) -> list[str]:
    """Queues by name, topics by address."""
    if not incomplete.startswith("/"):
        return queues(ctx, incomplete)
    known = []
    for prefix, names in (("/queue/", queues), ("/topic/", topics)):
        if prefix.startswith(incomplete) or incomplete.startswith(prefix):
            known += [prefix + name for name in names(ctx, incomplete[len(prefix) :])]
    return known


def destination_settings(incomplete: str) -> list[str]:
    from broker_app.net.policy.destination_settings import SETTINGS

    return _with_prefix(incomplete, [f"{name}=" for name in SETTINGS])


def live_settings(incomplete: str) -> list[str]:
    names = [f"{setting.name}=" for setting in config.settings() if setting.rule.reloadable]
    return _with_prefix(incomplete, names)


def resource_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of the resources that the command works on."""
    kind = _resource_type(ctx)
    return _names(ctx, kind.path, incomplete) if kind is not None else []


def fields(ctx: typer.Context, incomplete: str) -> list[str]:
    kind = _resource_type(ctx)
    return _with_prefix(incomplete, [f"{name}=" for name in kind.fields]) if kind is not None else []


class Up(TyperCommand):
    """`mom up`, whose options click does not know."""

    def shell_complete(self, ctx: Any, incomplete: str) -> list[CompletionItem]:
        options = [(setting.option, setting.rule.about) for setting in config.settings()]
        options.append(("--open", "open the console in a browser, logged in"))
        chosen = [(name, about) for name, about in options if name.startswith(incomplete)]
        return [CompletionItem(name, help=literal(about)) for name, about in chosen]


def _resource_type(ctx: typer.Context) -> ResourceType | None:

    words = [parent.info_name for parent in _ancestors(ctx)]
    if "alert" in words:
        return resource_types.ALERT_RULES
    known = {
        kind.noun: kind
        for kind in (
            resource_types.RULES,
            resource_types.USERS,
            resource_types.GROUPS,
            resource_types.BROKERS,
            resource_types.BRIDGES,
            resource_types.CALLBACKS,
            resource_types.REFLEXES,
        )
    }
    return next((known[word] for word in words if word in known), None)


def _ancestors(ctx: Any) -> Iterator[Any]:
    """The command and its parents."""
    found = ctx
    while found is not None:
        yield found
        found = found.parent


def _names(ctx: typer.Context, path: str, incomplete: str, **query: Any) -> list[str]:
    from broker_app.cli.base.rest import Rest

    given = ctx.find_root().params
    try:
        target = contexts.find(
            given.get("context"),
            given.get("url"),
            given.get("token_file"),
            ca_file=given.get("ca_file"),
            cert_file=given.get("cert_file"),
        )
        found = Rest(target, timeout_s=_TIMEOUT_S).pages(path, limit=_MAX_NAMES, **query)
        return _with_prefix(incomplete, [str(row["name"]) for row in found])
    except Failure:
        return []


def _with_prefix(incomplete: str, words: Iterable[str]) -> list[str]:
    return [word for word in words if word.startswith(incomplete)]
