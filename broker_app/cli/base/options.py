"""Options that several commands share, each declared once."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any
from urllib.parse import quote

import typer

from broker_app.base import durations

Yes = Annotated[bool, typer.Option("--yes", help="do not ask for confirmation")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="only show what would change")]
Reason = Annotated[str | None, typer.Option("--reason", help="reason, kept in the history and the audit log")]
Idempotent = Annotated[bool, typer.Option("--idempotent", help="succeed if there is nothing to change")]


class Span(float):
    """A time in seconds as the default of an option: the help shows `1 h`, not 3600."""

    def __str__(self) -> str:
        return durations.in_words(self)


def span(least: float = 0.0) -> Callable[[Any], float]:
    """Return the parser of an option for a time, which is at least so many seconds."""

    def read(text: Any) -> float:
        try:
            found = text if isinstance(text, float | int) else durations.seconds(text)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
        if found < least:
            raise typer.BadParameter(f"{text} is less than {least:g} s")
        return float(found)

    read.__name__ = "time"
    return read


def reason_header(reason: str | None) -> dict[str, str]:
    """The request header with the reason of a change."""
    return {} if reason is None else {"Mom-Reason": quote(reason)}


def with_options(**options: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add `options` to a command: the annotation of each by its name.

    The command receives those that were given in its last parameter, a dictionary. A name that is a Python
    keyword ends in `_`.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        *own, last = inspect.signature(command, eval_str=True).parameters.values()
        shared = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
            for name, annotation in options.items()
        ]

        @functools.wraps(command)
        def called(**arguments: Any) -> None:
            values = {name.rstrip("_"): arguments.pop(name) for name in options}
            given = {name: value for name, value in values.items() if value is not None}
            command(**arguments, **{last.name: given})

        parameters = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own] + shared
        called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        called.__annotations__ = {one.name: one.annotation for one in parameters}
        return called

    return decorate
