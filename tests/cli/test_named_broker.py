"""Each command uses the broker that MOM_URL, --url or a context names, and never the one in ./data."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer._click.core import Command
from typer.core import TyperArgument, TyperGroup, TyperOption

from broker_app.cli import main
from broker_app.cli.base.contexts import Context, Contexts
from broker_app.cli.base.failures import Failure

#: nothing listens there
NAMED = "http://127.0.0.1:1"
#: commands that use no broker, or only files of this machine
OF_THIS_MACHINE = {
    "up",
    "broker run",
    "journal",
    "context",
    "bench",
    "callback worker",
    "cluster demo",  # three brokers of its own
    "config check",
    "group set",  # a group has no fields
    "pipeline",
}
#: commands that give an order to a broker
ORDERS = ("quiesce", "unquiesce", "pause", "resume", "restart", "stop", "shutdown")
#: arguments of commands for which a word alone is none
ARGUMENTS = {
    "pub": ["x", "body"],
    **{f"channel {word}": ["x", "body"] for word in ("send", "request")},
    "service rm": ["x", "--yes"],
    "service seed rm": ["x", "--yes"],
    "rule test": ["--queue", "x", "--action", "GET"],
    "rule explain": ["--queue", "x", "--action", "GET"],
    **{f"broker {order}": ["x", "--yes"] for order in ORDERS},
    "bridge forget": ["x", "x", "--yes"],
    "cluster record restore": ["FILE"],
    "cluster takeover": ["x"],
    "cluster remove": ["x"],
    "config diff": ["1", "2"],
    "config rollback": ["1"],
    "config set": ["max_messages=1"],
    "definitions plan": ["FILE"],
    "definitions import": ["FILE"],
    "user set": ["x", "email=x"],
    **{
        f"{kind} set": ["x", "comment=x"]
        for kind in ("rule", "mask", "broker", "bridge", "callback", "reflex", "alert rule")
    },
}


def leaves(command: Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Command]]:
    if isinstance(command, TyperGroup):
        for name, child in command.commands.items():
            yield from leaves(child, (*path, name))
    else:
        yield " ".join(path), command


@pytest.fixture(scope="module")
def mom() -> Any:
    for name in main._COMMANDS:
        main._assemble(name)
    return typer.main.get_command(main.app)


def required(command: Command) -> list[str]:
    found = []
    for parameter in command.params:
        if isinstance(parameter, TyperArgument) and parameter.required:
            found.append("x")
        elif isinstance(parameter, TyperOption) and parameter.required:
            found += [parameter.opts[0], "x"]
    return found


def is_of_this_machine(path: str) -> bool:
    return not OF_THIS_MACHINE.isdisjoint((path, path.split()[0]))


@pytest.mark.process
@pytest.mark.parametrize("by", ["MOM_URL", "--url", "a context", "MOM_CONTEXT"])
def test_each_command_uses_the_broker_that_is_named(
    mom: Any, by: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`mom token create` made a token at the broker of ./data."""
    for name in [name for name in os.environ if name.startswith("MOM_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "FILE").write_text("{}")
    given: list[str] = []
    match by:
        case "MOM_URL":
            monkeypatch.setenv(by, NAMED)
        case "--url":
            given = [by, NAMED]
        case _:
            contexts = Contexts({"XDG_CONFIG_HOME": str(tmp_path)})
            contexts.add(Context("named", NAMED))
            if by == "MOM_CONTEXT":
                contexts.add(Context("other", "http://127.0.0.1:2"))
                contexts.use("other")
                monkeypatch.setenv(by, "named")
    others = {}
    for path, command in leaves(mom):
        if is_of_this_machine(path):
            continue
        words = [*given, *path.split(), *ARGUMENTS.get(path, required(command))]
        try:
            mom(words, prog_name="mom", standalone_mode=False)
            others[path] = capsys.readouterr().out
        except Failure as failure:
            others[path] = str(failure)
    assert {path: outcome for path, outcome in others.items() if "127.0.0.1:1" not in outcome} == {}
