"""The option `--exec` of commands that run a program for each message."""

from __future__ import annotations

import shlex

from broker_app.cli.base.failures import USAGE, Failure


def words_of(text: str | None, example: str) -> list[str]:
    """The program and its arguments, none without the option. Raises Failure, which shows the `example`."""
    if text is None:
        return []
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise Failure(
            USAGE, f"--exec cannot be parsed: {error}", fix="quote it like a shell command"
        ) from error
    if not words:
        raise Failure(USAGE, "--exec is empty", fix=f"give a command, such as --exec '{example}'")
    return words
