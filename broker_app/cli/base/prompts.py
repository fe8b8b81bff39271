"""Confirmation of destructive commands."""

from __future__ import annotations

import sys

import typer

from broker_app.cli.base.failures import REFUSED, USAGE, Failure


def confirm(name: str, action: str, *, production: bool) -> None:
    """Ask at the terminal whether to `action` ("remove them"); on a production broker the name must be typed.
    Raises Failure when the answer is no, or there is no terminal."""
    if not sys.stdin.isatty():
        raise Failure(
            USAGE,
            "confirmation needs a terminal",
            fix="add --yes, or --dry-run to see what would happen",
        )
    if production:
        agreed = typer.prompt(f"This is production. Type {name} to {action}", err=True) == name
    else:
        agreed = typer.confirm(f"{action.capitalize()}?", err=True)
    if not agreed:
        raise Failure(REFUSED, "nothing was done", fix="answer y, or add --yes")
