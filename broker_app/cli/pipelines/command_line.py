"""The command line that starts a run again on its host: as it was given, with absolute paths, and without
passwords."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import typer

from broker_app.base.reply_types import Facts
from broker_app.cli.base import invocation
from broker_app.cli.base.invocation import Invocation

#: types of parameters that are paths
_PATHS: Final = ("path", "file", "directory")
#: parameters that name a variable or a file
_CREDENTIALS: Final = ("credential", "receiver_credential")
#: an address up to the last @ before its path: behind the scheme are user and password
_LOGIN: Final = re.compile(r"\A([a-z][a-z0-9+.-]*://)[^/?#]*@", re.IGNORECASE)
#: characters that the console stores
_LONGEST: Final = 4_000


def command_of(ctx: typer.Context) -> str:
    """The command of a run; empty if it is too long for the console."""
    options = [*_options(ctx), *broker_options(invocation.of(ctx))]
    command = shlex.join(["mom", "pipeline", "run", str(ctx.info_name), *options])
    return command if len(command) <= _LONGEST else ""


def broker_options(given: Invocation) -> list[str]:
    """The options that select the broker; an address without its password."""
    options = {"--context": given.context, "--url": _without_login(given.url or "")}
    files = {
        "--ca-file": given.ca_file, "--token-file": given.token_file, "--cert-file": given.cert_file,
    }  # fmt: skip
    options |= {name: str(Path(file).absolute()) for name, file in files.items() if file}
    return [word for name, value in options.items() if value for word in (name, value)]


def credentials(params: Facts) -> dict[str, str]:
    """The parameters with a credential: the name of a variable, or of a file if there is a slash in it."""
    return {name: params[name] for name in _CREDENTIALS if params.get(name)}


def files(command: Any, params: dict[str, object]) -> list[Any]:
    """The parameters of a command whose values are paths."""
    found = {name for name, place in credentials(params).items() if "/" in place}
    return [one for one in command.params if one.type.name in _PATHS or one.name in found]


def _options(ctx: typer.Context) -> Iterator[str]:
    """The options that were given, with their values."""
    paths = files(ctx.command, ctx.params)
    one: Any
    for one in ctx.command.params:
        source = ctx.get_parameter_source(one.name)
        if source is None or source.name != "COMMANDLINE":
            continue
        option, value = max(one.opts, key=len), ctx.params[one.name]
        if one.is_flag:
            yield option
            continue
        for each in value if one.multiple else [value]:
            yield option
            yield str(Path(each).absolute()) if one in paths else _without_login(str(each))


def _without_login(text: str) -> str:
    """An address without user and password; any other text as it is."""
    return _LOGIN.sub(r"\1", text)
