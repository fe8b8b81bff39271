"""Pages of users."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from django import forms
from django.contrib.auth.models import Group
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

from broker_app.net.policy.roles import MONITOR
from broker_app.web.console.base.edit_page import AddPage, EditPage
from broker_app.web.console.base.list_page import ListPage
from broker_app.web.console.base.remove_page import RemovePage
from broker_app.web.console.base.resource_form import ResourceForm
from broker_app.web.console.base.resource_page import ResourcePages
from broker_app.web.resource_types import Spec

#: the roles with their labels, and what each may do
ROLES: Final = (
    ("", "", gettext_lazy("No role: rules decide what the user may do.")),
    (
        MONITOR,
        gettext_lazy("Monitor"),
        gettext_lazy("Monitor: sees everything, regardless of the rules, and changes nothing."),
    ),
    (
        "administrator",
        gettext_lazy("Administrator"),
        gettext_lazy(
            "Administrator: may do everything, regardless of the rules, and change the configuration."
        ),
    ),
)


def role_of(spec: Spec) -> str:
    """The role in the spec of a user; empty if there is none."""
    return next((name for name, label, _about in ROLES if label and spec[name]), "")


def _groups() -> list[tuple[str, str]]:
    return [(name, name) for name in Group.objects.order_by("name").values_list("name", flat=True)]


class UserForm(ResourceForm):
    kind = "users"
    hidden = frozenset({"password"})

    role = forms.ChoiceField(
        required=False,
        label=gettext_lazy("Role"),
        choices=[(name, about) for name, _label, about in ROLES],
        widget=forms.RadioSelect,
    )
    active = forms.BooleanField(
        required=False,
        label=gettext_lazy("Active"),
        help_text=gettext_lazy("Inactive users cannot log in; their sessions are closed."),
    )
    groups = forms.MultipleChoiceField(
        required=False,
        choices=_groups,
        widget=forms.CheckboxSelectMultiple,
        label=gettext_lazy("Groups"),
        help_text=gettext_lazy("Rules can apply to groups instead of single users."),
    )
    email = forms.EmailField(required=False, max_length=254, label=gettext_lazy("E-mail"))
    password = forms.CharField(
        required=False,
        strip=False,
        label=gettext_lazy("New password"),
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )

    def __init__(self, *args: Any, spec: Spec | None = None, **options: Any) -> None:
        super().__init__(*args, spec=None if spec is None else {**spec, "role": role_of(spec)}, **options)
        self.fields["password"].help_text = (
            gettext_lazy("Without a password, the user cannot log in with one.")
            if self.key is None
            else gettext_lazy(
                "Empty keeps the current password. A new one closes sessions that logged in with the old one."
            )
        )

    def spec(self) -> Spec:
        """The spec, in which a role is a field of its name."""
        spec = super().spec()
        role = spec.pop("role")
        return {**spec, **{name: name == role for name, label, _about in ROLES if label}}

    def label_of(self, name: str) -> str | Promise | None:
        """The label of a field of the spec, in which a role is a field of its name."""
        roles = {role: label for role, label, _about in ROLES if label}
        return roles.get(name) or super().label_of(name)

    def field_of(self, pointer: str) -> str:
        """The field that shows errors of a part of the spec."""
        return "role" if pointer == MONITOR else super().field_of(pointer)


USERS = ResourcePages(
    kind="users",
    title=gettext_lazy("Users"),
    about=gettext_lazy("Accounts that may log in. Their permissions are defined by rules."),
    adds=gettext_lazy("Add a user"),
    none=gettext_lazy("There are no users yet."),
    command="mom user create john groups=office password=@john.password",
    form=UserForm,
    columns={
        "role": gettext_lazy("role"),
        "active": gettext_lazy("active"),
        "groups": gettext_lazy("groups"),
        "email": gettext_lazy("e-mail"),
    },
)


class UsersPage(ListPage):
    subject = USERS

    def specs(self) -> Mapping[str, Spec]:
        """The users with the names of their roles, which the filter finds."""
        labels = {name: str(label) for name, label, _about in ROLES}
        return {key: {**spec, "role": labels[role_of(spec)]} for key, spec in super().specs().items()}

    def cell(self, spec: Spec, name: str) -> str:
        if name == "active":
            return str(gettext_lazy("yes") if spec["active"] else gettext_lazy("no, cannot log in"))
        return super().cell(spec, name)


class AddUser(AddPage):
    subject = USERS


class EditUser(EditPage):
    subject = USERS


class RemoveUser(RemovePage):
    subject = USERS
