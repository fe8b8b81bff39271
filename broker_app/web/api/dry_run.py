"""The changes that a write would make: the answer to `?dry_run=true`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from broker_app.web import actions
from broker_app.web.impact import of_changes

if TYPE_CHECKING:
    from broker_app.node.node import Node


def reply(outcome: actions.ChangeResult, node: Node | None) -> dict[str, object]:
    """The outcome of edits that were only tried, as JSON; for rules, what they would decide otherwise."""
    found: dict[str, object] = {
        "dry_run": True,
        "version": outcome.version,
        "changes": [change(changed) for changed in outcome.changed],
    }
    if warnings := outcome.warnings():
        found["warnings"] = warnings
    impact = of_changes(node, outcome.changed)
    return found if impact is None else {**found, "impact": impact}


def change(changed: actions.Changed) -> dict[str, object]:
    """The change of one resource, made or previewed."""
    return {
        "kind": changed.kind,
        "name": changed.key,
        "action": changed.action,
        "before": changed.before,
        "after": changed.after,
        "diff": list(_differences(changed.before or {}, changed.after or {})),
        "secrets": list(changed.secrets),
    }


def _differences(
    before: dict[str, object], after: dict[str, object], pointer: str = ""
) -> Iterator[dict[str, object]]:
    """Each member that differs, by its JSON pointer; one that was not, or will not be there, is left out."""
    for name in {**before, **after}:
        place = f"{pointer}/{name.replace('~', '~0').replace('/', '~1')}"
        was, now = before.get(name), after.get(name)
        if isinstance(was, dict) and isinstance(now, dict):
            yield from _differences(was, now, place)
        elif name not in before:
            yield {"pointer": place, "after": now}
        elif name not in after:
            yield {"pointer": place, "before": was}
        elif was != now:
            yield {"pointer": place, "before": was, "after": now}
