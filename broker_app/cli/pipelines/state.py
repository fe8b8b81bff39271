"""`mom pipeline offsets` and `reset`: how far the runs of this machine have come."""

from __future__ import annotations

from typing import Annotated

import typer

from broker_app.cli.base import invocation
from broker_app.cli.base.options import Yes
from broker_app.cli.base.prompts import confirm
from broker_app.cli.pipelines.failures import pipeline_failures
from broker_app.cli.pipelines.options import State
from broker_app.cli.pipelines.run_context import api_of, state_of

_Name = Annotated[str, typer.Argument(help="name of the run")]
_OFFSETS = ("broker", "table", "epoch", "position", "until")


def offsets(
    ctx: typer.Context,
    name: _Name,
    set_: Annotated[
        str | None,
        typer.Option("--set", metavar="JSON", help="begin at these positions: '{\"mom\": 812345}'"),
    ] = None,
    yes: Yes = False,
    state: State = None,
) -> None:
    """Show how far a run of this machine has come, or have the next one begin elsewhere.

    mom pipeline offsets archive --set '{"mom": 812345}'

    Positions are set for an archive while it does not run. Its former checkpoint is kept next to the new one.
    Positions in between are left out; those that the archive has already are refused when it runs.
    """
    from mom_pipeline.stored_run import StoredRun

    given = invocation.of(ctx)
    with pipeline_failures():
        run = StoredRun(state or state_of(ctx, name), name)
        before = run.offsets()
        if set_ is None:
            given.output.rows(_OFFSETS, before)
            return
        wanted = run.wanted(set_)
        for row in before:
            difference = wanted[row["broker"]] - row["position"]
            how = f"{abs(difference):,} positions {'are left out' if difference > 0 else 'are read again'}"
            given.output.say(
                f"{row['table']} of {row['broker']}: {row['position']} → {wanted[row['broker']]}; {how}"
            )
        if not yes:
            confirm(name, f"have {name} begin there", production=given.target().production)
        kept = run.begin_at(wanted)
    where = f"; its checkpoint is kept in {kept}" if kept else ""
    given.output.done(
        f"{name} begins at {set_}{where}", {"name": name, "offsets": wanted, "kept": str(kept or "")}
    )


def reset(ctx: typer.Context, name: _Name, yes: Yes = False, state: State = None) -> None:
    """Have the next run of a name begin again, with any parameters.

    Removes its folder with the checkpoint, while it does not run, and its cursors at the broker, which then
    lets go of the journal that it kept for them. What it has written stays.
    """
    from mom_pipeline.stored_run import StoredRun

    given = invocation.of(ctx)
    with pipeline_failures():
        run = StoredRun(state or state_of(ctx, name), name)
        given.output.say(f"{run.path} is removed; {run.again}")
        if not yes:
            confirm(name, f"reset {name}", production=given.target().production)
        cursors = run.reset(api_of(given.target()), given.output.say)
    dropped = f"; cursors that the broker has dropped: {', '.join(cursors)}" if cursors else ""
    given.output.done(
        f"{name} begins again{dropped}", {"name": name, "removed": str(run.path), "cursors": cursors}
    )
