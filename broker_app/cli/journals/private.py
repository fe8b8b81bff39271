"""`mom journal replace-private`: sets a stale private journal aside."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from broker_app.cli.base import invocation
from broker_app.cli.base.prompts import confirm
from broker_app.cli.journals.copying import journal_failures

_SIDES = ("journal", "place", "epoch", "holder", "position")


def replace_private(
    ctx: typer.Context,
    journal: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="the shared journal: postgresql://…, redis://… or file:/DIRECTORY",
            envvar="MOM_JOURNAL",
        ),
    ],
    private_journal: Annotated[
        Path,
        typer.Option(metavar="DIRECTORY", help="the private journal", envvar="MOM_PRIVATE_JOURNAL"),
    ],
    name: Annotated[
        str, typer.Option(help="name of the broker; a store has a journal for each name", envvar="MOM_NAME")
    ] = "mom",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only show both journals")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="do not ask")] = False,
) -> None:
    """Set the private journal of a stopped broker aside, and have it copied again from the shared one.

    When another broker has served meanwhile, the private journal is older than the shared one, and its broker
    does not start. This command shows both, and renames the private one. The broker then starts, on standby
    while the other one serves, and copies the shared journal when it serves.

    Example:

        mom journal replace-private --name B1 --journal postgresql://mom@db/mom --private-journal b1/private
    """
    from broker_app import config
    from broker_app.storage import private_journal as journals

    output = invocation.of(ctx).output
    name = config.checked_name(name)
    with journal_failures():
        found = journals.compare(journal, private_journal, name)
        journals.refuse_replacement(found)
    output.rows(_SIDES, [side._asdict() for side in found])
    if dry_run:
        return
    if not yes:
        confirm(name, f"replace the private journal in {found.private.place}", production=False)
    with journal_failures():
        kept = journals.replace(private_journal, name)
    output.say(
        f"The former private journal is in {kept}; delete it when you do not need it. Start the broker: it "
        "copies the shared journal when it serves."
    )
