"""Options of other brokers: `-Dimq.NAME=VALUE`, `-cluster LIST` and `-reset takeover-then-exit` of
GlassFish MQ's `imqbrokerd`, and `-DNAME=VALUE` with names of ActiveMQ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from broker_app.base.suggestions import suggestion
from broker_app.cli.base.failures import USAGE, Failure
from broker_app.features.cluster.configuration import foreign_names
from broker_app.features.cluster.configuration.expectations import Expectation

_PROPERTY, _CLUSTER, _RESET = "-D", "-cluster", "-reset"
_TAKEOVER: Final = "takeover-then-exit"


def translated(arguments: Sequence[str]) -> list[str]:
    """The arguments with these options as those of `mom up`. Raises Failure."""
    found = [part for argument in arguments for part in _translated(argument)]
    if _RESET in found:
        at = found.index(_RESET)
        if found[at + 1 : at + 2] != [_TAKEOVER]:
            raise Failure(
                USAGE,
                f"-reset is possible with {_TAKEOVER} alone",
                fix="`mom queue purge` and `mom queue rm` remove what -reset messages and -reset store do",
            )
        found[at : at + 2] = ["--reset-takeovers"]
    return found


def expected(arguments: Sequence[str]) -> list[Expectation]:
    """The properties among the arguments, which may order what other settings do."""
    given = [argument for argument in arguments if argument.startswith(_PROPERTY)]
    parts = [argument.removeprefix(_PROPERTY).partition("=") for argument in given]
    return [
        Expectation(argument, name, value) for argument, (name, _, value) in zip(given, parts, strict=True)
    ]


def _translated(argument: str) -> Iterator[str]:
    if argument == _CLUSTER:
        yield "--cluster"
    elif argument.startswith(_PROPERTY):
        yield from _option(argument.removeprefix(_PROPERTY))
    else:
        yield argument


def _option(text: str) -> Iterator[str]:
    """The option for a property; nothing if it changes nothing. Raises Failure."""
    name, _, value = text.partition("=")
    row = foreign_names.find(name)
    try:
        if row is None:
            raise ValueError(f"there is no property {name}{suggestion(name, list(foreign_names.NAMES))}")
        if found := row.value(value):
            yield f"--{row.setting.replace('_', '-')}={found}"
    except ValueError as error:
        raise Failure(USAGE, f"-D{text}: {error}", fix="docs/clusters.md lists all names") from error
