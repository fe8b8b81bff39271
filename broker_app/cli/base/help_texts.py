"""Help texts, shown as they are meant: rich, which prints them, takes a word in brackets for markup, and
keeps the ends of lines of the source."""

from __future__ import annotations

import inspect
import re
from typing import Any

#: what rich takes for markup, such as [bold] or mom-broker[pipeline]
_TAG = re.compile(r"\[[a-z#/@][^\[\]]*\]")
#: click's mark of a paragraph whose lines are kept
_KEPT = "\b"


def literal(text: str) -> str:
    """The text, escaped so that rich shows its brackets."""
    return _TAG.sub(r"\\\g<0>", text)


def prepare(command: Any) -> None:
    """Have rich show the help texts of a command of click, of its options and its subcommands as they are
    written, in paragraphs as wide as the terminal."""
    if command.help:
        command.help = literal(_flowing(command.help))
    for described in command.params:
        if getattr(described, "help", None):
            described.help = literal(described.help)
    for each in getattr(command, "commands", {}).values():
        prepare(each)


def _flowing(text: str) -> str:
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(
        paragraph if paragraph.startswith(_KEPT) else paragraph.replace("\n", " ") for paragraph in paragraphs
    )
