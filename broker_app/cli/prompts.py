"""Asking before something is destroyed."""

from __future__ import annotations

import sys

import typer

from broker_app.cli.failures import REFUSED, USAGE, Failure


def confirm(name: str, deed: str, *, production: bool) -> None:
    """Asks at the terminal whether to `deed` ("remove them"); on a production broker the name must be typed.
    Raises Failure when the answer is no, or nobody is there to give one."""
    if not sys.stdin.isatty():
        raise Failure(
            USAGE, "nobody is there to confirm", fix="add --yes, or --dry-run to see what would happen"
        )
    if production:
        agreed = typer.prompt(f"This is production. Type {name} to {deed}", err=True) == name
    else:
        agreed = typer.confirm(f"{deed.capitalize()}?", err=True)
    if not agreed:
        raise Failure(REFUSED, "nothing was done")
