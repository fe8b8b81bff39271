"""The form for one thing of a kind: its fields are those that the kind says, and errors stand beside them."""

from __future__ import annotations

from typing import Any, ClassVar
from zlib import crc32

from django import forms
from django.core.exceptions import ValidationError
from django.http import QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from broker_app.web.actions import Edit
from broker_app.web.console.labels import one_of
from broker_app.web.resource_types import KINDS, Said


class ThingForm(forms.Form):
    """A form with the name of a thing, what is said of it, the version that it replaces, and why.

    A subclass adds the kind's fields under the names that the kind has for them; those in `apart` are none
    of them. `key` is that of the thing that is there, None for a new one.
    """

    kind: ClassVar[str]
    #: fields that are not part of what is said
    apart: ClassVar[frozenset[str]] = frozenset({"name", "version", "reason"})
    #: fields that are secrets of the kind; empty leaves them as they are
    hidden: ClassVar[frozenset[str]] = frozenset()

    name = forms.CharField(max_length=300)
    version = forms.IntegerField(widget=forms.HiddenInput, required=False)
    reason = forms.CharField(
        required=False,
        max_length=1000,
        label=gettext_lazy("Reason"),
        help_text=gettext_lazy("Reason for the change, kept in the history and the audit log."),
    )

    field_order = ("name",)

    def __init__(
        self, data: Any = None, *, key: str | None = None, said: Said | None = None, version: int = 0
    ) -> None:
        super().__init__(data, initial={**(said or {}), "version": version})
        self.key = key
        self.fields["name"].label = _("Name of the %(one)s") % {"one": one_of(self.kind)}
        if key is not None:
            del self.fields["name"]
        self.order_fields([*(name for name in self.fields if name != "reason"), "reason"])

    @property
    def edition(self) -> str:
        """Tells editors of this thing as it is now from all others, so that none is taken for another."""
        return f"{crc32((self.key or '').encode()):x}-{self['version'].value() or 0}"

    def edits(self) -> list[Edit]:
        """What a valid form asks for; the edit of the thing itself comes first."""
        given = self.cleaned_data
        secrets = {name: given[name] for name in self.hidden if given[name]}
        return [Edit(self.kind, self.thing(), self.said(), given["version"] or 0, secrets)]

    def thing(self) -> str:
        """The key of what the form is about."""
        return self.key if self.key is not None else self.cleaned_data["name"]

    def said(self) -> Said:
        """What a valid form says of the thing."""
        skipped = self.apart | self.hidden
        return {name: value for name, value in self.cleaned_data.items() if name not in skipped}

    def show_faults(self, fault: ValidationError) -> None:
        """Puts what is wrong beside the fields that it is about."""
        if not hasattr(fault, "error_dict"):
            self.add_error(None, fault.messages)
            return
        for name, messages in fault.message_dict.items():
            field = self.field_of(name)
            if field in self.fields:
                self.add_error(field, messages)
            else:
                about = "" if name == "__all__" else f"{name}: "
                self.add_error(None, [about + text for text in messages])

    def field_of(self, pointer: str) -> str:
        """The field that shows what is wrong with a part of what is said."""
        return pointer.partition("/")[0]

    def replace(self, version: int) -> None:
        """Makes the form replace another version when it is sent again."""
        assert isinstance(self.data, QueryDict), "it was sent by a browser"
        data = self.data.copy()
        data["version"] = str(version)
        self.data = data

    def shown_fields(self) -> list[Any]:
        """The fields that are drawn one below the other; the reason stands beside the buttons."""
        return [field for field in self.visible_fields() if field.name != "reason"]


def defaults_of(kind: str) -> Said:
    """What a new thing says where nothing is chosen."""
    return KINDS[kind].complete("", {}, None)
