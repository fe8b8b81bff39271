"""Preview of the impact of edits of rules."""

from __future__ import annotations

from collections.abc import Sequence

from django.http import HttpRequest

from broker_app.base.refused import Refused
from broker_app.web.actions import Changed
from broker_app.web.impact import of_changes
from broker_app.web.policy_sync import node_of


def impact_of(request: HttpRequest, changed: Sequence[Changed]) -> dict[str, object]:
    """The impact for templates: past decisions that would change, and connected clients that would lose
    permissions. Empty without a node, and where no rule is changed."""
    node = node_of(request)
    try:
        return {"impact": of_changes(node, changed) if node is not None else None}
    except Refused:
        return {"impact": None, "busy": True}
