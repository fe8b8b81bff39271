"""Django's admin is a window without secrets: what it does not show cannot be asked for either."""

from __future__ import annotations

import logging

import pytest
from django.apps import apps
from django.contrib import admin as site
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from broker_app.web import actions
from broker_app.web.actions import SYSTEM, Edit

pytestmark = pytest.mark.django_db

#: by the model's page, the fields that are secrets, or reveal them
SECRETS = [
    ("broker_app_bridge", "password"),
    ("auth_user", "password"),
    ("broker_app_token", "digest"),
    ("broker_app_token", "owner__password"),
    ("broker_app_bridge", "values"),
    ("auth_user", "tokens__digest"),
    ("auth_user", "session__session_key"),
]


@pytest.mark.parametrize(("model", "field"), SECRETS)
def test_no_page_is_chosen_by_a_field_that_is_not_shown(
    inside: Client, admin: User, model: str, field: str
) -> None:
    edit = Edit("bridges", "far", {"hostname": "far.example"}, secrets={"password": "s3cr3t-pw"})
    actions.apply(SYSTEM, [edit])
    actions.create_token(SYSTEM, admin, "first")
    page = reverse(f"admin:{model}_changelist")
    for lookup in ("", "__startswith", "__gt", "__regex", "__isnull"):
        for value in ("s", "argon2", "0", "z"):
            assert inside.get(page, {field + lookup: value}).status_code == 400, (lookup, value)


def test_a_refused_lookup_is_one_line_of_the_log(
    inside: Client, admin: User, caplog: pytest.LogCaptureFixture
) -> None:
    page = reverse("admin:auth_user_changelist")
    with caplog.at_level(logging.DEBUG, "django.request"):
        assert inside.get(page, {"password__startswith": "a"}).status_code == 400
    (record,) = [record for record in caplog.records if record.name.startswith("django")]
    assert record.exc_info is None
    assert page in record.getMessage()


def test_every_existing_page_refuses_lookups(inside: Client, admin: User) -> None:
    for model in apps.get_models():
        if site.site.is_registered(model):
            page = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
            assert inside.get(page).status_code == 200
            assert inside.get(page, {f"{model._meta.pk.name}__gt": "0"}).status_code == 400, page
