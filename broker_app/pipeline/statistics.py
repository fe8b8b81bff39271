"""Statistics of minutes, which the pipeline has computed, for charts of any time range."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from django.db import transaction

from broker_app.pipeline import database
from broker_app.pipeline.models import ComputedTime, StatMinute

#: rows in one request, and in one reply
MOST_ROWS: Final = 10_000
#: minutes older than this are deleted
KEPT: Final = timedelta(days=90)
KEY: Final = ("broker", "destination", "minute")
#: what each row has in addition to its key
FIGURES: Final = tuple(
    field.name for field in StatMinute._meta.get_fields() if field.name not in ("id", *KEY)
)


class Computed(NamedTuple):
    """A time of which all minutes of all destinations of a broker are computed."""

    broker: str
    begin: datetime
    end: datetime


def store(rows: Sequence[dict[str, object]], computed: Computed | None, now: datetime) -> None:
    """Insert rows; those of the same minute and destination are replaced. `computed` is the time that is
    complete with them."""
    database.create()
    StatMinute.objects.bulk_create(
        [StatMinute(**row) for row in rows],
        batch_size=500,
        update_conflicts=True,
        unique_fields=KEY,
        update_fields=FIGURES,
    )
    kept_from = (now - KEPT).replace(second=0, microsecond=0)
    StatMinute.objects.filter(minute__lt=kept_from).delete()
    ComputedTime.objects.filter(end__lte=kept_from).delete()
    ComputedTime.objects.filter(begin__lt=kept_from).update(begin=kept_from)
    if computed is not None:
        _note(computed)


def _note(computed: Computed) -> None:
    """Store that a time was computed, together with those that it touches."""
    broker, begin, end = computed
    with transaction.atomic(using=database.PIPELINE):
        touching = ComputedTime.objects.select_for_update().filter(
            broker=broker, begin__lte=end, end__gte=begin
        )
        known = list(touching)
        begin = min([begin, *(one.begin for one in known)])
        end = max([end, *(one.end for one in known)])
        touching.delete()
        ComputedTime.objects.create(broker=broker, begin=begin, end=end)


def rows_of(destination: str, begin: datetime, end: datetime, broker: str = "") -> list[dict[str, object]]:
    """The minutes of a destination in [begin, end), oldest first, at most MOST_ROWS."""
    if not database.is_created():
        return []
    found = StatMinute.objects.filter(destination=destination, minute__gte=begin, minute__lt=end)
    if broker:
        found = found.filter(broker=broker)
    return list(found.order_by("minute", "broker").values(*KEY, *FIGURES)[:MOST_ROWS])
