"""`mom pipeline schedule`: lines for cron and units for systemd that start a run."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from broker_app.cli.base import invocation
from broker_app.cli.base.failures import USAGE, Failure
from broker_app.cli.base.invocation import Invocation
from broker_app.cli.pipelines import command_line as pipeline_command
from broker_app.cli.pipelines import run as pipeline_run

#: `mom pipeline schedule` passes on the options of the job
PASSED_ON = {"ignore_unknown_options": True, "allow_interspersed_args": False}


class _Times(NamedTuple):
    """The times at which a job is started: for cron, for systemd, and in words."""

    cron: str
    systemd: str
    words: str


_DEFAULT = {
    "archive": _Times("*/10 * * * *", "*:00/10", "every ten minutes"),
    "statistics": _Times("* * * * *", "minutely", "every minute"),
    "reconcile": _Times("17 * * * *", "*:17", "every hour"),
    "compact": _Times("23 4 * * *", "*-*-* 04:23", "every night"),
}
#: variables that select a broker
_ONLY_HERE = {"MOM_URL", "MOM_TOKEN", "MOM_TOKEN_FILE", "MOM_CONTEXT"}


def schedule(
    ctx: typer.Context,
    words: Annotated[
        list[str], typer.Argument(metavar="JOB [OPTIONS]", help="what follows `mom pipeline run`")
    ],
) -> None:
    """Print lines for cron and units for systemd that start a job of `mom pipeline run`.

    mom pipeline schedule archive --out /srv/archive --messages

    mom pipeline schedule statistics --every 2s

    The job and its options are checked, and nothing is changed. With `--every`, the job stays. It uses
    the broker of `mom context use`, or that of `--context`, `--url` and `--token-file`.
    """
    given = invocation.of(ctx)
    job, params, files = _checked(words)
    name, resident = params.get("name") or job, params.get("every") is not None
    if not resident and job not in _DEFAULT:
        raise Failure(USAGE, f"{job} is no job for a schedule", fix=f"use one of {', '.join(_DEFAULT)}")
    _report_variables(given, params)
    command = shlex.join([_mom(), *_broker(given), "pipeline", "run", *_absolute(words, files), "-q"])
    units = {f"mom-{name}.service": _service(name, command, stays=resident)}
    if resident:
        times = _Times("@reboot", "", "when the machine starts")
    else:
        times = _DEFAULT[job]
        units[f"mom-{name}.timer"] = _timer(name, times)
    cron = f"{times.cron} {_for_cron(command)}"
    if given.output.form in ("json", "ndjson", "yaml"):
        given.output.facts({"name": name, "when": times.words, "cron": cron, "systemd": units})
        return
    print(f"# cron, {times.words}: crontab -e\n{cron}\n")
    for file, content in units.items():
        print(f"# systemd: ~/.config/systemd/user/{file}\n{content}")
    unit = next(reversed(units))
    print(f"# systemctl --user daemon-reload && systemctl --user enable --now {shlex.quote(unit)}")


def _checked(words: list[str]) -> tuple[str, dict[str, Any], set[str]]:
    """The job, its parameters, and those of its options that name files. Raises what `mom pipeline run` would
    raise."""
    from typer.main import get_command

    run: Any = get_command(pipeline_run.app)
    if words[0] not in run.commands:
        known = ", ".join(sorted(run.commands))
        raise Failure(USAGE, f"there is no job {words[0]!r}", fix=f"use one of {known}")
    command = run.commands[words[0]]
    params = command.make_context(f"mom pipeline run {words[0]}", words[1:]).params
    files = pipeline_command.files(command, params)
    return words[0], params, {option for one in files for option in one.opts}


def _broker(given: Invocation) -> list[str]:
    """The options that select the broker. Raises Failure for an address with a password, which all could
    read."""
    if "@" in (given.url or ""):
        fix = "use mom context add, or --token-file"
        raise Failure(USAGE, "the address has a password, which would be visible in the lines", fix=fix)
    return pipeline_command.broker_options(given)


def _report_variables(given: Invocation, params: dict[str, Any]) -> None:
    """Report variables on which a run depends, and which only this shell has."""
    names = [place for place in pipeline_command.credentials(params).values() if "/" not in place]
    if given.context is None and given.url is None:
        names += sorted(os.environ.keys() & _ONLY_HERE)
    if names:
        fix = "name files for credentials, and see mom context add"
        given.output.say(f"cron and systemd do not know {', '.join(names)} of this shell: {fix}")


def _absolute(words: list[str], files: set[str]) -> list[str]:
    """The words, with files whose paths do not depend on the working directory; `files` are their options."""
    found: list[str] = []
    for word in words:
        option, equals, value = word.partition("=")
        if found and found[-1] in files:
            word = str(Path(word).absolute())
        elif equals and option in files:
            word = f"{option}={Path(value).absolute()}"
        found.append(word)
    return found


def _mom() -> str:
    """The command that runs now, with its path: cron and systemd have another PATH."""
    beside = Path(sys.executable).with_name("mom")
    return str(beside if beside.exists() else Path(sys.argv[0]).absolute())


def _for_cron(command: str) -> str:
    """cron takes % for the end of the line."""
    return command.replace("%", "\\%")


def _service(name: str, command: str, *, stays: bool) -> str:
    lines = ["[Unit]", f"Description=MOM pipeline {name}", "After=network-online.target", "", "[Service]"]
    # systemd takes % for a specifier and $ for a variable.
    lines += [f"ExecStart={command.replace('%', '%%').replace('$', '$$')}"]
    if stays:
        lines += ["Restart=on-failure", "RestartSec=10", "RestartPreventExitStatus=2 3", "", "[Install]"]
        lines += ["WantedBy=default.target"]
    else:
        lines += ["Type=oneshot"]
    return "\n".join([*lines, ""])


def _timer(name: str, times: _Times) -> str:
    lines = ["[Unit]", f"Description=MOM pipeline {name}, {times.words}", "", "[Timer]"]
    lines += [f"OnCalendar={times.systemd}", "Persistent=true", "", "[Install]", "WantedBy=timers.target", ""]
    return "\n".join(lines)
