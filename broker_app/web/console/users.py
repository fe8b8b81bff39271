"""Pages of users."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib.auth.models import Group

from broker_app.web.console.editing import AddPage, EditPage
from broker_app.web.console.listing import ListPage
from broker_app.web.console.removing import RemovePage
from broker_app.web.console.subject import Subject
from broker_app.web.console.thing_form import ThingForm
from broker_app.web.kinds import Said


def _groups() -> list[tuple[str, str]]:
    return [(name, name) for name in Group.objects.order_by("name").values_list("name", flat=True)]


class UserForm(ThingForm):
    kind = "users"
    hidden = frozenset({"password"})

    administrator = forms.BooleanField(
        required=False, help_text="may do everything, whatever the rules say, and change the configuration"
    )
    active = forms.BooleanField(required=False, help_text="may log in; sessions of others are refused")
    groups = forms.MultipleChoiceField(
        required=False,
        choices=_groups,
        widget=forms.CheckboxSelectMultiple,
        help_text="Rules can name groups instead of single users.",
    )
    email = forms.EmailField(required=False, max_length=254, label="E-mail")
    password = forms.CharField(
        required=False,
        strip=False,
        label="New password",
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.fields["password"].help_text = (
            "Without one, nobody can log in with a password."
            if self.key is None
            else "Empty leaves the one there is. A new one ends sessions that logged in with the old one."
        )


USERS = Subject(
    kind="users",
    title="Users",
    about="Who may log in. What users may do is said by rules.",
    form=UserForm,
    columns={"administrator": "administrator", "active": "active", "groups": "groups", "email": "e-mail"},
)


class Users(ListPage):
    subject = USERS

    def cell(self, said: Said, name: str) -> str:
        if name == "active":
            return "yes" if said["active"] else "no, may not log in"
        return super().cell(said, name)


class AddUser(AddPage):
    subject = USERS


class EditUser(EditPage):
    subject = USERS


class RemoveUser(RemovePage):
    subject = USERS
