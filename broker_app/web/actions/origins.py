"""Where things are said: lines of a file that moved, while what they say stayed the same."""

from collections.abc import Mapping

from django.db import transaction

from broker_app.models import Entry
from broker_app.web.actions.applying import record_changes
from broker_app.web.actions.author import By


@transaction.atomic
def move_origins(by: By, origins: Mapping[tuple[str, str], str], version: int | None) -> int:
    """Writes down the new origins of things, by kind and key; an empty one is the database.

    `version` is that of a change that was just made by the same transaction; without one there is another, in
    which no thing changed. Returns it.
    """
    kinds = {kind for kind, _ in origins}
    rows = [row for row in Entry.objects.filter(kind__in=kinds) if (row.kind, row.key) in origins]
    for row in rows:
        row.origin = origins[row.kind, row.key]
    Entry.objects.bulk_update(rows, ["origin"], batch_size=500)
    return record_changes(by, []) if version is None else version
