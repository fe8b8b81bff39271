"""Pages of groups. Membership is stored with users; the form edits it as a list of members."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import User
from django.utils.translation import gettext_lazy

from broker_app.web.actions import Edit
from broker_app.web.console.base.edit_page import AddPage, EditPage
from broker_app.web.console.base.fields import LinesField
from broker_app.web.console.base.list_page import ListPage
from broker_app.web.console.base.remove_page import RemovePage
from broker_app.web.console.base.resource_form import ResourceForm
from broker_app.web.console.base.resource_page import ResourcePages
from broker_app.web.resource_types import RESOURCE_TYPES, Spec
from broker_app.web.resource_types.resource_type import unknown


class GroupForm(ResourceForm):
    kind = "groups"
    apart = ResourceForm.apart | {"members"}

    members = LinesField(
        rows=6,
        language="users",
        label=gettext_lazy("Members"),
        help_text=gettext_lazy("Users, one per line."),
    )

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if self.key is not None:
            self.initial["members"] = members_of(self.key)

    def clean_members(self) -> list[str]:
        members: list[str] = self.cleaned_data["members"]
        known = set(User.objects.values_list("username", flat=True))
        for name in members:
            if name not in known:
                self.add_error("members", unknown(name, known).replace("such field", f"user {name}"))
        return members

    def edits(self) -> list[Edit]:
        group, members = self.resource_key(), set(self.cleaned_data["members"])
        spec = RESOURCE_TYPES["users"].read({*members, *members_of(group)})
        return super().edits() + [
            Edit("users", name, _with_group(user, group, name in members)) for name, user in spec.items()
        ]


def members_of(group: str) -> list[str]:
    """The names of the users in a group."""
    found = User.objects.filter(groups__name=group).order_by("username")
    return list(found.values_list("username", flat=True))


def _with_group(user: Spec, group: str, is_member: bool) -> Spec:
    others = [name for name in user["groups"] if name != group]
    return {**user, "groups": [*others, group] if is_member else others}


GROUPS = ResourcePages(
    kind="groups",
    title=gettext_lazy("Groups"),
    about=gettext_lazy("Groups of users, for use in authorization rules."),
    adds=gettext_lazy("Add a group"),
    none=gettext_lazy("There are no groups yet."),
    command="mom group create office",
    form=GroupForm,
    columns={"members": gettext_lazy("members")},
)


class GroupsPage(ListPage):
    subject = GROUPS

    def specs(self) -> Mapping[str, Spec]:
        members: dict[str, list[str]] = {}
        pairs = User.groups.through.objects.order_by("user__username")
        for group, user in pairs.values_list("group__name", "user__username"):
            members.setdefault(group, []).append(user)
        return {key: {"members": members.get(key, [])} for key in super().specs()}


class AddGroup(AddPage):
    subject = GROUPS


class EditGroup(EditPage):
    subject = GROUPS


class RemoveGroup(RemovePage):
    subject = GROUPS
