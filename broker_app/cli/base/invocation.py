"""The options that all commands have in common: the broker to use and the form of the output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import typer

from broker_app.cli.base import contexts
from broker_app.cli.base.contexts import BrokerTarget
from broker_app.cli.base.output import Output

if TYPE_CHECKING:
    from broker_app.cli.base.rest import Rest

#: options allowed before or after the command: name → true if a value follows
GLOBAL_OPTIONS = {
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
    """The selected broker, and the output."""

    context: str | None
    url: str | None
    token_file: str | None
    output: Output
    ca_file: str | None = None
    cert_file: str | None = None

    def target(self) -> BrokerTarget:
        """The selected broker. Raises Failure."""
        return contexts.find(
            self.context, self.url, self.token_file, ca_file=self.ca_file, cert_file=self.cert_file
        )

    def rest(self) -> Rest:
        """Its REST interface."""
        from broker_app.cli.base.rest import Rest

        return Rest(self.target())


def of(ctx: typer.Context) -> Invocation:
    return cast("Invocation", ctx.obj)


def command_of(arguments: Sequence[str]) -> str:
    """The command among arguments that `options_first` has sorted; empty if there is none."""
    left = list(arguments)
    while left:
        word = left.pop(0)
        if not word.startswith("-"):
            return word
        if GLOBAL_OPTIONS.get(word) and left:
            left.pop(0)
    return ""


def options_first(arguments: Sequence[str]) -> list[str]:
    """The arguments with the global options moved before the command; what follows `--` stays."""
    first: list[str] = []
    rest: list[str] = []
    left = list(arguments)
    while left:
        word = left.pop(0)
        if word == "--":
            return [*first, *rest, word, *left]
        name, equals, _ = word.partition("=")
        if name not in GLOBAL_OPTIONS:
            rest.append(word)
            continue
        first.append(word)
        if GLOBAL_OPTIONS[name] and not equals and left:
            first.append(left.pop(0))
    return first + rest
