"""Pages of masks, and what is checked when one is saved."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.test import Client

from broker_app.models import Mask
from broker_app.web.actions import SYSTEM, Edit, apply
from broker_app.web.resource_types import RESOURCE_TYPES, masks
from tests.web.console.forms import sent

pytestmark = pytest.mark.django_db

FORM = {
    "destination": "/queue/orders.>", "headers": "iban\nx-card", "fields": "/card/number", "groups": "fraud",
    "comment": "",
}  # fmt: skip


def test_a_mask_is_added_listed_edited_and_removed(inside: Client) -> None:
    assert "mom mask create cards" in inside.get("/console/masks/").content.decode()
    page = sent(inside, "/console/masks/add", name="cards", **FORM)
    assert "Mask cards was created." in page and "/queue/orders.&gt;" in page
    (found,) = masks.masks()
    assert (found.name, found.headers, found.fields) == ("cards", ("iban", "x-card"), ("/card/number",))
    edit = inside.get("/console/masks/edit?name=cards").content.decode()
    assert "iban\nx-card</textarea>" in edit and "JSON pointers to values of bodies" in edit
    assert "/lines/*/price; one per line" in edit
    preview = sent(inside, "/console/masks/add", "preview", **FORM, name="other")
    assert "there is no group fraud" in preview
    sent(inside, "/console/masks/remove?name=cards")
    assert not Mask.objects.exists()


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        ({"destination": "orders", "headers": ["a"]}, "destination"),
        ({"destination": ">"}, "one of them has to name what is hidden"),
        ({"destination": ">", "fields": ["card"]}, "is no JSON pointer"),
        ({"destination": ">", "fields": ["/a" * 17]}, "has more than 16 parts"),
        ({"destination": ">", "headers": ["Content-Type"]}, "cannot be hidden"),
        ({"destination": ">", "headers": [" a"]}, "has blanks at an end"),
        ({"destination": ">", "headers": "a"}, "must be a list"),
        ({"destination": ">", "headers": ["a"], "comment": "x" * 1001}, "has more than 1,000 characters"),
        ({"destination": ">", "headers": ["a"], "header": 1}, "there is no such field"),
    ],
)
def test_what_is_wrong_is_named(spec: dict[str, Any], error: str) -> None:
    with pytest.raises(ValidationError) as fault:
        apply(SYSTEM, [Edit("masks", "m", spec)])
    assert error in str(fault.value.message_dict)
    assert RESOURCE_TYPES["masks"].read() == {}


def test_a_name_is_checked_and_their_number_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = {"destination": ">", "headers": ["a"]}
    with pytest.raises(ValidationError, match="a mask's name has"):
        apply(SYSTEM, [Edit("masks", "a b", spec)])
    monkeypatch.setattr(masks, "MOST_MASKS", 1)
    apply(SYSTEM, [Edit("masks", "a", spec)])
    with pytest.raises(Exception, match="more than 1 masks"):
        apply(SYSTEM, [Edit("masks", "b", spec)])
