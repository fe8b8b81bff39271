"""`mom journal`: verifies and prints journals; repairs, compacts and copies those of a stopped broker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from broker_app.cli.base import invocation
from broker_app.cli.base.failures import CONFLICT, FAILED, NOT_FOUND, Failure
from broker_app.cli.journals.copying import copy
from broker_app.cli.journals.private import replace_private

if TYPE_CHECKING:
    from broker_app.core.durability.record_reader import Reader
    from broker_app.journal.tools.inspect import DumpedBatch, DumpedRecord

app = typer.Typer(
    no_args_is_help=True,
    help="""Verify, print, repair and compact the files of a journal; copy it to another backend.

    The journal is the directory `journal` in the broker's data directory, or in a store. It holds all durable
    data. `verify` and `dump` only read, and can be used while the broker runs. `repair`, `compact` and `copy`
    need the broker to be stopped; a running broker compacts its journal itself.
    """,
)
app.command()(copy)
app.command("replace-private")(replace_private)

_Directory = Annotated[Path, typer.Argument(help="the directory `journal` in the broker's data directory")]
_FINDINGS = ("file", "offset", "damage", "finding")


@app.command()
def verify(ctx: typer.Context, directory: _Directory = Path("data/journal")) -> None:
    """Verify the checksums of all records, and decode them. Exit code 1 if there is damage."""
    from broker_app.core.durability import record_check
    from broker_app.journal.tools import inspect

    _check(directory)
    rows = []
    for finding in inspect.verify(directory, record_check.check):
        name = Path(finding.file).name
        rows.append(
            {"file": name, "offset": finding.offset, "damage": finding.damage, "finding": finding.sentence}
        )
    invocation.of(ctx).output.rows(_FINDINGS, rows)
    if any(row["damage"] for row in rows):
        raise Failure(
            FAILED,
            "the journal is damaged",
            where=str(directory),
            fix="stop the broker; `mom journal repair --dry-run` shows what can be repaired and what is lost",
        )


@app.command()
def repair(
    ctx: typer.Context,
    directory: _Directory = Path("data/journal"),
    skip_damaged: Annotated[
        bool, typer.Option("--skip-damaged", help="discard records that cannot be read")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only show what is damaged")] = False,
) -> None:
    """Repair a damaged journal so that the broker can start again.

    Repairs without loss are always made. Batches that cannot be read are removed only with --skip-damaged:
    messages in them are lost, and messages whose acknowledgements were in them are delivered again.
    The losses are listed, with --dry-run as well: positions, and the number of messages of each destination.

    The original files are kept in the directory `journal/damaged-…`. An incomplete last batch after a power
    failure is not damage: the broker truncates it when it starts.
    """
    from broker_app.journal.tools.repair import describe
    from broker_app.storage import offline

    _check(directory)
    output = invocation.of(ctx).output
    with _journal_failures(directory):
        repaired = offline.repair(directory, skip_damaged=skip_damaged, dry_run=dry_run)
    sentences = describe(repaired.damages)
    output.rows(
        ("file", "offset", "finding"),
        [
            {"file": damage.file, "offset": damage.offset, "finding": sentence}
            for damage, sentence in zip(repaired.damages, sentences, strict=True)
        ],
    )
    for address, count in sorted(repaired.lost.items()):
        effect = "are lost" if repaired.kept else "cannot be read, and would be lost"
        output.say(f"{count} waiting messages of {address} {effect}")
    if (repaired.damages or repaired.lost) and not repaired.kept and not dry_run:
        raise Failure(
            FAILED,
            "nothing was changed: there are batches that cannot be read",
            where=str(directory),
            fix="restore a backup, or copy the directory and use --skip-damaged to discard these batches",
        )
    if repaired.kept:
        output.say(f"repaired; {repaired.waiting} messages wait. The original files: {repaired.kept}")
    elif not (repaired.damages or repaired.lost):
        output.say("no damage; nothing was changed")


@app.command()
def compact(ctx: typer.Context, directory: _Directory = Path("data/journal")) -> None:
    """Shrink the files of a stopped broker's journal to the messages that still wait.

    Copies waiting messages out of mostly dead segments, writes a snapshot, and deletes the segments.
    A running broker does the same continuously, in small steps.
    """
    from broker_app.storage import offline

    _check(directory)
    output = invocation.of(ctx).output
    with _journal_failures(directory):
        done = offline.compact(directory, output.say)
    output.rows(
        ("directory", "bytes_before", "bytes_after", "waiting"),
        [
            {
                "directory": str(directory),
                "bytes_before": done.before,
                "bytes_after": done.after,
                "waiting": done.waiting,
            }
        ],
    )


@contextmanager
def _journal_failures(directory: Path) -> Iterator[None]:
    """Turn errors of the journal into Failures."""
    from broker_app.journal.errors import JournalDamaged, JournalError, JournalInUse

    try:
        yield
    except JournalInUse as error:
        raise Failure(
            CONFLICT, "a broker is using this journal", where=str(error), fix="stop that broker first"
        ) from None
    except JournalDamaged as error:
        raise Failure(
            FAILED,
            "the journal cannot be read",
            where=str(error),
            fix="`mom journal verify` lists the damage",
        ) from None
    except JournalError as error:
        raise Failure(
            FAILED, "the journal cannot be written", where=str(error), fix="check free space and permissions"
        ) from None


@app.command()
def dump(
    directory: _Directory = Path("data/journal"),
    first: Annotated[int, typer.Option("--from", min=0, help="first position")] = 0,
    bodies: Annotated[bool, typer.Option("--bodies", help="include message bodies")] = False,
) -> None:
    """Print the records as JSON lines, in the order of the files."""
    from broker_app.core.durability import record_check
    from broker_app.journal.tools import inspect

    _check(directory)
    readers: dict[str, Reader] = {}
    for batch in inspect.dump(directory, first_position=first):
        for record in batch["records"]:
            try:
                record_check.check(record["content"], len(batch["destinations"]))
                shown = _readable(batch, record, readers, bodies)
            except ValueError as error:
                shown = {"position": record["position"], "type": record["type"], "error": str(error)}
            print(json.dumps(shown, ensure_ascii=False))


def _check(directory: Path) -> None:
    if not directory.is_dir():
        raise Failure(
            NOT_FOUND,
            "there is no such directory",
            where=str(directory),
            fix="name the directory `journal` in the broker's data directory",
        )
    if not any(directory.glob("*.seg")) and not (directory / "meta.json").exists():
        raise Failure(
            NOT_FOUND,
            "there is no journal in this directory",
            where=str(directory),
            fix="name the directory `journal` in the broker's data directory",
        )


def _readable(
    batch: DumpedBatch, record: DumpedRecord, readers: dict[str, Reader], bodies: bool
) -> dict[str, object]:
    """One record, decoded."""
    from broker_app.core.durability import records
    from broker_app.core.durability.record_reader import Reader
    from broker_app.core.publishing.bulk_producer import is_bulk_producer

    content = record["content"]
    kind, flags, priority, destination, start, end = next(records.walk(content))
    address = batch["destinations"][destination]
    shown: dict[str, object] = {"position": record["position"], "file": batch["file"], "destination": address}
    if kind == records.PUBLISHED:
        message = readers.setdefault(address, Reader(address)).message(content, record["position"])
        shown |= {
            "record": "published",
            "time_ms": message.time_ms,
            "priority": priority,
            "bytes": len(message.body),
        }
        if due_ms := records.due_of(content):
            shown["due_ms"] = due_ms
        if origin := records.origin_of(content, start, flags):
            index, position = origin
            shown["origin"] = {"offset": batch["destinations"][index], "position": position}
        shown |= _client(batch, records.client_of(content, start, flags))
        shown["headers"] = message.envelope.block.decode(errors="backslashreplace")
        if bodies:
            shown["body"] = message.body.decode(errors="backslashreplace")
        return shown
    if kind == records.SUBSCRIBED:
        return {**shown, "record": "subscribed", **records.terms(content, start, end)._asdict()}
    if kind == records.FORGOTTEN:
        return {**shown, "record": "forgotten"}
    if kind == records.OFFSET_SET:
        owner, accepted, count, time_ms = records.offset_of(content, start, end)
        if is_bulk_producer(address):
            producer = {"next_batch": accepted, "rows": count, "time_ms": time_ms, "owner": owner}
            return {**shown, "record": "published up to", **producer}
        offset = {"accepted": accepted, "count": count, "time_ms": time_ms, "owner": owner}
        return {**shown, "record": "marked", **offset}
    numbers = records.positions(content, start, end).tolist()
    if kind == records.ACKED:
        shown |= {"record": "gone", "cause": records.CAUSES[flags], "positions": numbers}
        facts = records.facts(content, start, end)
        shown |= _reason(priority) | _clients(batch, content, start, end)
        if facts is not None:
            columns = {name: list(column) for name, column in facts._asdict().items()}
            own = columns.pop("has_own_id")
            shown |= {**columns, "with_own_id": [at for at, one in zip(numbers, own, strict=True) if one]}
        return shown
    if kind == records.DELIVERED:
        return {**shown, "record": "delivered", "priority": priority, "up_to": numbers[0]}
    if kind == records.RETURNED:
        return {
            **shown,
            "record": "given back" if flags & records.GIVEN_BACK else "delivery began",
            "attempts": dict(zip(numbers[::2], numbers[1::2], strict=True)),
            **_reason(priority),
            **_clients(batch, content, start, end),
        }
    return {**shown, "record": f"type {kind}"}


def _reason(code: int) -> dict[str, str]:
    """The reason of a failed delivery or a removed message, if it has one."""
    from broker_app.core import reasons

    return {"reason": reasons.name_of(code) or f"code {code}"} if code else {}


def _client(batch: DumpedBatch, index: int) -> dict[str, dict[str, str]]:
    """The client with this index in the table of a batch, if it is known."""
    from broker_app.core import client_address
    from broker_app.core.durability import records

    if index == records.NO_CLIENT:
        return {}
    named = client_address.of_address(batch["destinations"][index])
    return {"client": {name: text for name, text in named._asdict().items() if text}}


def _clients(batch: DumpedBatch, content: bytes, start: int, end: int) -> dict[str, object]:
    """The clients of the messages of a record, in their order, if they are known."""
    from broker_app.core.durability import records

    indexes = records.clients(content, start, end)
    if indexes is None or set(indexes) == {records.NO_CLIENT}:
        return {}
    return {"clients": [_client(batch, index).get("client") for index in indexes]}
