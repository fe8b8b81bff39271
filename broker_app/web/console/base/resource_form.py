"""The form for one resource. Its fields follow the resource type; errors are shown at their fields."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, cast
from zlib import crc32

from django import forms
from django.core.exceptions import ValidationError
from django.http import QueryDict
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from broker_app.web.actions import Edit
from broker_app.web.console.base.labels import one_of
from broker_app.web.resource_types import RESOURCE_TYPES, Spec

#: the form of each kind of resource, by which pages know the words of its fields
FORMS: dict[str, type[ResourceForm]] = {}


class ResourceForm(forms.Form):
    """A form with the name of a resource, its spec, the version that it replaces, and a reason.

    Subclasses add the fields of the resource type under the same names; those in `apart` are not part of
    the spec. `key` is that of an existing resource, None for a new one.
    """

    kind: ClassVar[str]
    #: fields that are not part of the spec
    apart: ClassVar[frozenset[str]] = frozenset({"name", "version", "reason"})
    #: fields that contain secrets; empty ones keep the current value
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

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        FORMS.setdefault(cls.kind, cls)

    def __init__(
        self, data: Any = None, *, key: str | None = None, spec: Spec | None = None, version: int = 0
    ) -> None:
        super().__init__(data, initial={**(spec or {}), "version": version})
        self.key = key
        self.fields["name"].label = _("Name of the %(one)s") % {"one": one_of(self.kind)}
        if key is not None:
            del self.fields["name"]
        self.order_fields([*(name for name in self.fields if name != "reason"), "reason"])

    @property
    def edition(self) -> str:
        """An identifier of this resource at this version, by which editors keep drafts apart."""
        return f"{crc32((self.key or '').encode()):x}-{self['version'].value() or 0}"

    def edits(self) -> list[Edit]:
        """The edits of a valid form; that of the resource itself comes first."""
        given = self.cleaned_data
        secrets = {name: given[name] for name in self.hidden if given[name]}
        return [Edit(self.kind, self.resource_key(), self.spec(), given["version"] or 0, secrets)]

    def resource_key(self) -> str:
        """The key of the resource."""
        return self.key if self.key is not None else self.cleaned_data["name"]

    def spec(self) -> Spec:
        """The spec in a valid form."""
        skipped = self.apart | self.hidden
        return {name: value for name, value in self.cleaned_data.items() if name not in skipped}

    def label_of(self, name: str) -> str | Promise | None:
        """The label of a field of the spec."""
        field = self.fields.get(name)
        return field.label if field is not None else None

    def words_of(self, name: str, value: Any) -> str:
        """The label of a value that is one of the choices of its field; empty for another one."""
        field = self.fields.get(name)
        if not isinstance(field, forms.ChoiceField) or not isinstance(value, str):
            return ""
        choices = cast(Iterable[tuple[str, object]], field.choices)
        return next((str(label) for choice, label in choices if choice == value), "")

    def show_faults(self, fault: ValidationError) -> None:
        """Add errors to the fields that they concern."""
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
        """The field that shows errors of a part of the spec."""
        return pointer.partition("/")[0]

    def replace(self, version: int) -> None:
        """Make the form replace another version when it is submitted again."""
        assert isinstance(self.data, QueryDict), "it was sent by a browser"
        data = self.data.copy()
        data["version"] = str(version)
        self.data = data

    def shown_fields(self) -> list[Any]:
        """The visible fields except for the reason, which is rendered next to the buttons."""
        return [field for field in self.visible_fields() if field.name != "reason"]


def defaults_of(kind: str) -> Spec:
    """The default spec of a new resource."""
    return RESOURCE_TYPES[kind].complete("", {}, None)
