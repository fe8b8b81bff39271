"""The type of what pages pass to their templates, which alone read it."""

from __future__ import annotations

#: one thing as a template shows it
Shown = dict[str, object]
