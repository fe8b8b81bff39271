"""Form fields for lists, code, and declared members of specs."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as translated

from broker_app.base.spec_members import SpecMember


class LinesField(forms.CharField):
    """A list of strings, one per line.

    Empty lines, surrounding spaces and repetitions are ignored. `language` is one that the page's editor
    supports (`frontend/src/editor/languages.ts`).
    """

    def __init__(self, *, rows: int = 3, language: str = "", **options: Any) -> None:
        self.language = language
        widget = forms.Textarea(attrs={"rows": rows, "spellcheck": "false", "autocapitalize": "none"})
        super().__init__(required=False, widget=widget, **options)

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(value) if isinstance(value, list) else value

    def to_python(self, value: Any) -> Any:
        lines = (line.strip() for line in (super().to_python(value) or "").splitlines())
        return list(dict.fromkeys(line for line in lines if line))


class CodeField(forms.CharField):
    """Text of several lines that is kept unchanged, such as code."""

    def __init__(self, *, rows: int = 4, language: str = "", **options: Any) -> None:
        self.language = language
        widget = forms.Textarea(attrs={"rows": rows, "spellcheck": "false", "autocapitalize": "none"})
        super().__init__(strip=False, widget=widget, **options)

    def to_python(self, value: Any) -> Any:
        # Browsers submit CRLF line ends.
        return (super().to_python(value) or "").replace("\r\n", "\n")


def member_field(member: SpecMember, default: object) -> forms.Field:
    """The field of a declared member of a spec."""
    about: dict[str, Any] = {"label": translated(member.label), "help_text": translated(member.about)}
    if member.choices:
        choices = [(name, translated(label)) for name, label in member.choices.items()]
        return forms.ChoiceField(choices=choices, **about)
    if isinstance(default, bool):
        return forms.BooleanField(required=False, **about)
    return forms.IntegerField(**about) if isinstance(default, int) else forms.FloatField(**about)
