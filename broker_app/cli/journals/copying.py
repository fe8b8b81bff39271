"""`mom journal copy`: moves a stopped broker's journal to another backend."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from broker_app.cli.base import invocation
from broker_app.cli.base.failures import CONFLICT, FAILED, NOT_FOUND, UNREACHABLE, USAGE, Failure
from broker_app.cli.base.progress import Progress

_PLACE = "data directory, or address of a store: postgresql://…, redis://… or file:/DIRECTORY"
_COUNTS = ("segments", "batches", "records", "bytes", "live_records", "notes")


def copy(
    ctx: typer.Context,
    source: Annotated[str, typer.Argument(metavar="FROM", help=f"the journal to copy: {_PLACE}")],
    target: Annotated[str, typer.Argument(metavar="TO", help=f"where the copy goes: {_PLACE}")],
    name: Annotated[
        str, typer.Option(help="name of the broker; a store has a journal for each name", envvar="MOM_NAME")
    ] = "mom",
) -> None:
    """Copy the journal of a stopped broker to another backend, to start the broker there.

    FROM and TO are data directories (as MOM_DATA) or the addresses of stores (as MOM_JOURNAL). All messages
    keep their ids, order and delivery attempts; subscriptions, delayed messages and deduplication windows are
    copied as well. The copy is checked before it can be used. FROM does not change.

    While it is copied, no broker can use either journal. TO must not contain a journal. A copy that was
    interrupted cannot be used; repeat the command, and it begins again.

    Example: from the files of broker B1 to PostgreSQL, and its first start there:

        mom journal copy data postgresql://mom@db/mom --name B1

        mom up --data data --name B1 --journal postgresql://mom@db/mom
    """
    from broker_app import config
    from broker_app.storage.copying import copy_journal, is_same_place

    output = invocation.of(ctx).output
    if is_same_place(source, target):
        raise Failure(USAGE, "FROM and TO are the same place", fix="name another place for the copy")
    with journal_failures(), Progress(output, "records", 0) as shown:

        def update(done: int, total: int) -> None:
            shown.total = total
            shown.update(done)

        copied = copy_journal(source, target, config.checked_name(name), update)
    output.rows(_COUNTS, [copied._asdict()])
    if copied.notes_left_out:
        output.say(
            f"{copied.notes_left_out} notes of mirrors were not copied: segment files cannot store them. "
            "Users and rules of the broker are those of its data directory"
        )
    output.say("The copy is complete. Start the broker with the copy, and do not use the original again.")


@contextmanager
def journal_failures() -> Iterator[None]:
    """Turn errors of both journals into Failures."""
    from broker_app.config import ConfigError
    from broker_app.journal.errors import JournalError, JournalInUse
    from broker_app.journal.store import Unreachable
    from broker_app.journal.tools.copy_target import JournalExists
    from broker_app.storage.copying import NoJournal
    from broker_app.storage.private_journal import NoPrivateJournal

    codes: tuple[tuple[type[Exception], int], ...] = (
        (ConfigError, USAGE),
        (NoJournal, NOT_FOUND),
        (NoPrivateJournal, NOT_FOUND),
        (JournalInUse, CONFLICT),
        (JournalExists, CONFLICT),
        (Unreachable, UNREACHABLE),
        (JournalError, FAILED),
    )
    try:
        yield
    except (ConfigError, JournalError) as error:
        raise Failure(next(code for kind, code in codes if isinstance(error, kind)), str(error)) from error
