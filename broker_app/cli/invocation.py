"""An invocation: what the command line said beside the command itself, for all commands alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import typer

from broker_app.cli import contexts
from broker_app.cli.contexts import Target
from broker_app.cli.output import Output

if TYPE_CHECKING:
    from broker_app.cli.rest import Rest

#: options before or behind the command: name → whether a value follows
_EVERYWHERE = {
    "--context": True,
    "--url": True,
    "--token-file": True,
    "--ca-file": True,
    "--cert-file": True,
    "--output": True,
    "-o": True,
    "--no-header": False,
    "--quiet": False,
    "-q": False,
}


@dataclass(frozen=True, slots=True)
class Invocation:
    """Which broker is meant, and how results are written."""

    context: str | None
    url: str | None
    token_file: str | None
    output: Output
    ca_file: str | None = None
    cert_file: str | None = None

    def target(self) -> Target:
        """The broker that is meant. Raises Failure."""
        return contexts.find(
            self.context, self.url, self.token_file, ca_file=self.ca_file, cert_file=self.cert_file
        )

    def rest(self) -> Rest:
        """Its REST interface."""
        from broker_app.cli.rest import Rest

        return Rest(self.target())


def of(ctx: typer.Context) -> Invocation:
    return cast("Invocation", ctx.obj)


def command_of(arguments: Sequence[str]) -> str:
    """The command among arguments that `options_first` has put in order; empty where there is none."""
    left = list(arguments)
    while left:
        word = left.pop(0)
        if not word.startswith("-"):
            return word
        if _EVERYWHERE.get(word) and left:
            left.pop(0)
    return ""


def options_first(arguments: Sequence[str]) -> list[str]:
    """The arguments with the options that are accepted anywhere moved before the command; what follows
    `--` is left alone."""
    first: list[str] = []
    rest: list[str] = []
    left = list(arguments)
    while left:
        word = left.pop(0)
        if word == "--":
            return [*first, *rest, word, *left]
        name, equals, _ = word.partition("=")
        if name not in _EVERYWHERE:
            rest.append(word)
            continue
        first.append(word)
        if _EVERYWHERE[name] and not equals and left:
            first.append(left.pop(0))
    return first + rest
