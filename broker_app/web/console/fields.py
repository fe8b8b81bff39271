"""Fields of forms for what JSON has and HTML has not: lists of texts, one a line."""

from __future__ import annotations

from typing import Any

from django import forms


class Lines(forms.CharField):
    """A list of texts, one a line. Empty lines and blanks around are nothing; twice is once. `language` is
    one that the page's editor knows (`frontend/src/editor/languages.ts`)."""

    def __init__(self, *, rows: int = 3, language: str = "", **options: Any) -> None:
        self.language = language
        widget = forms.Textarea(attrs={"rows": rows, "spellcheck": "false", "autocapitalize": "none"})
        super().__init__(required=False, widget=widget, **options)

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(value) if isinstance(value, list) else value

    def to_python(self, value: Any) -> Any:
        lines = (line.strip() for line in (super().to_python(value) or "").splitlines())
        return list(dict.fromkeys(line for line in lines if line))


class Code(forms.CharField):
    """Text of several lines that a machine reads: it stays as it was written."""

    def __init__(self, *, rows: int = 4, language: str = "", **options: Any) -> None:
        self.language = language
        widget = forms.Textarea(attrs={"rows": rows, "spellcheck": "false", "autocapitalize": "none"})
        super().__init__(strip=False, widget=widget, **options)

    def to_python(self, value: Any) -> Any:
        # A browser ends lines as the network does.
        return (super().to_python(value) or "").replace("\r\n", "\n")
