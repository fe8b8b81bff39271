"""The surroundings of a run that a command starts: the API of the broker, a bar, the journal that is read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from broker_app.base.reply_types import Facts
from broker_app.cli.base import invocation
from broker_app.cli.base.contexts import BrokerTarget
from broker_app.cli.base.failures import CONFLICT, NOT_FOUND, UNREACHABLE, USAGE, Failure
from broker_app.cli.base.progress import Progress as Bar
from broker_app.cli.pipelines.command_line import command_of

if TYPE_CHECKING:
    from broker_app.cli.base.rest import Rest
    from mom_pipeline.progress import Api, Progress
    from mom_pipeline.runner import Run, Surroundings
    from mom_pipeline.source import Source

#: variable in which the credential of the address reaches Spark's workers
_CREDENTIAL = "MOM_PIPELINE_CREDENTIAL"
_API_TIMEOUT_S = 10.0


def done(ctx: typer.Context, run: Run) -> None:
    """Show how a run ended."""
    given = invocation.of(ctx)
    facts = {
        "name": run.name, "state": "stopped" if run.stop.requested else "done", "rows": run.progress.rows,
        "positions": run.progress.positions,
        "lag": run.progress.lag, "reason": run.stop.reason,
    }  # fmt: skip
    sentence = f"{run.name}: {facts['rows']:,} rows, {facts['state']}"
    given.output.done(sentence + (f" ({run.stop.reason})" if run.stop.reason else ""), facts)


@contextmanager
def surroundings(ctx: typer.Context, given: Facts, unit: str = "positions") -> Iterator[Surroundings]:
    """The surroundings of a run, with a bar that shows its progress in units of its source."""
    from mom_pipeline import runner
    from mom_pipeline.progress import RUNNING
    from mom_pipeline.spark import gateway

    command = invocation.of(ctx)
    with Bar(command.output, unit, 0, delay_s=0.0) as bar:

        def show(progress: Progress) -> None:
            bar.total = progress.total
            state = "" if progress.state == RUNNING else f", {progress.state}"
            bar.update(progress.read, f"{progress.rows:,} rows{state}")

        yield runner.Surroundings(
            state=given.get("state") or state_of(ctx, given.get("name") or str(ctx.info_name)),
            api=api_of(command.target()),
            say=command.output.say,
            show=show,
            master=given.get("master"),
            memory=given.get("memory") or "1g",
            niceness=given.get("nice", gateway.NICENESS),
            verbose=bool(given.get("verbose")),
            command=command_of(ctx),
        )


def state_of(ctx: typer.Context, name: str) -> Path:
    """The folder of the state of a run of the selected broker."""
    from mom_pipeline.job_folder import broker_folder, state_folder

    return broker_folder(state_folder(), invocation.of(ctx).target().web, name)


def api_of(target: BrokerTarget) -> Api:
    """The API of a broker."""
    from broker_app.cli.base.rest import Rest

    return _Api(Rest(target, _API_TIMEOUT_S))


class _Api:
    """The API of the selected broker, with errors as the pipeline expects them."""

    def __init__(self, rest: Rest) -> None:
        self._rest = rest

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """See `mom_pipeline.progress.Api`."""
        from mom_pipeline.progress import ApiRefused, ApiUnreachable

        try:
            return self._rest.call(method, path, body)
        except Failure as failure:
            if failure.code == UNREACHABLE:
                raise ApiUnreachable(failure.what) from failure
            conflict, missing = failure.code == CONFLICT, failure.code == NOT_FOUND
            raise ApiRefused(failure.what, conflict=conflict, missing=missing) from failure


def source(ctx: typer.Context, given: Facts, around: Surroundings) -> Source:
    """The journal that is read: by default that of the selected broker, with its credential."""
    from mom_pipeline.source import Source

    target = invocation.of(ctx).target()
    url, credential = given.get("source"), given.get("credential")
    if url is None:
        url, credential = target.web, credential or credential_of(target)
    patterns = tuple(each.strip() for each in (given.get("destinations") or "").split(",") if each.strip())
    name, files = given.get("broker") or "mom", (target.ca_file or None, target.cert_file or None)
    source = Source(url, name, patterns, credential, *files)
    if given.get("broker"):
        return source
    return replace(source, broker=_broker_name(source, around, named=given.get("source") is not None))


def credential_of(target: BrokerTarget) -> str | None:
    """The name of the variable with the credential of a broker, which is set; None without one."""
    if not target.login:
        return None
    token = target.login == "token"
    os.environ[_CREDENTIAL] = target.passcode if token else f"{target.login}:{target.passcode}"
    return _CREDENTIAL


def _broker_name(source: Source, around: Surroundings, *, named: bool) -> str:
    """The name of the selected broker, if the source is its journal."""
    from mom_pipeline.errors import TEMPORARY, PipelineError
    from mom_pipeline.progress import ApiRefused, ApiUnreachable

    fix = "give the name of the broker with --broker"
    try:
        span = around.api.call("GET", "/journal/span")
    except ApiUnreachable as error:
        raise PipelineError(str(error), "start the broker, or try again later", TEMPORARY) from error
    except ApiRefused as error:
        refusal = error.__cause__
        if isinstance(refusal, Failure) and refusal.fix:
            fix = refusal.fix
        raise Failure(USAGE, f"the name of the broker is not known: {error}", fix=fix) from error
    name = str(span["broker"])
    # A store has the journals of several brokers, each under its name.
    if named and f"{replace(source, broker=name).tag():x}" != span["journal"]:
        raise Failure(USAGE, f"{source.url} is not the journal of {name}", fix=fix)
    return name
