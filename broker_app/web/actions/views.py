"""Saved views of the console: no configuration, so without versions."""

from django.db.models import Q, QuerySet

from broker_app.models import SavedView
from broker_app.web.actions.change_set import Conflict

#: of one user
MOST = 100


def views_of(user: str) -> QuerySet[SavedView]:
    """A user's own views, and those that others share."""
    return SavedView.objects.filter(Q(owner=user) | Q(shared=True)).order_by("name")


def save_view(owner: str, name: str, address: str, shared: bool) -> SavedView:
    """Names an address; a name that there is stands for this one from now on. Raises Conflict when a user has
    too many."""
    if SavedView.objects.filter(owner=owner).exclude(name=name).count() >= MOST:
        raise Conflict(f"You have {MOST} views; remove one first.")
    said = {"address": address, "shared": shared}
    return SavedView.objects.update_or_create(owner=owner, name=name, defaults=said)[0]


def remove_view(view: SavedView) -> None:
    """Forgets it; the page that it led to is still there."""
    view.delete()
