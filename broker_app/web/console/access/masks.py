"""Pages of masks. The form follows the members of a mask."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _
from django.utils.translation import gettext_lazy as translated

from broker_app.features.masks.mask import MEMBERS
from broker_app.web.console.base.edit_page import AddPage, EditPage
from broker_app.web.console.base.fields import LinesField
from broker_app.web.console.base.list_page import ListPage
from broker_app.web.console.base.remove_page import RemovePage
from broker_app.web.console.base.resource_form import ResourceForm
from broker_app.web.console.base.resource_page import ResourcePages


class MaskForm(ResourceForm):
    kind = "masks"

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        for name, (member, default) in MEMBERS.items():
            label, about = translated(member.label), translated(member.about)
            if isinstance(default, list):
                each = format_lazy("{}; {}", about, _("one per line"))
                self.fields[name] = LinesField(label=label, help_text=each)
            else:
                self.fields[name] = forms.CharField(
                    label=label, help_text=about, required=name == "destination"
                )
        self.order_fields([*(name for name in self.fields if name != "reason"), "reason"])


MASKS = ResourcePages(
    kind="masks",
    title=_("Masks"),
    about=_(
        "Values of messages that are hidden from those who look at them, here, over REST and in exports. Who "
        "receives messages gets them whole."
    ),
    adds=_("Add a mask"),
    none=_("There are no masks yet."),
    command="mom mask create cards destination='/queue/orders.>' fields=/card/number groups=fraud",
    form=MaskForm,
    columns={
        "destination": _("destination"),
        "headers": _("headers"),
        "fields": _("fields"),
        "groups": _("groups"),
        "comment": _("comment"),
    },
)


class MasksPage(ListPage):
    subject = MASKS


class AddMask(AddPage):
    subject = MASKS


class EditMask(EditPage):
    subject = MASKS


class RemoveMask(RemovePage):
    subject = MASKS
