"""`mom journal`: looks into the files of a journal, without a broker and without changing anything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from broker_app.cli import invocation
from broker_app.cli.failures import FAILED, NOT_FOUND, Failure

if TYPE_CHECKING:
    from broker_app.core.records import Reader

app = typer.Typer(no_args_is_help=True, help="Check and print the files of a journal.")

_Directory = Annotated[Path, typer.Argument(help="the journal: the folder of that name in the broker's data")]
_FINDINGS = ("file", "offset", "damage", "finding")


@app.command()
def verify(ctx: typer.Context, directory: _Directory = Path("data/journal")) -> None:
    """Check every byte that counts. Damage is exit code 1."""
    from broker_app.journal import inspect

    _check(directory)
    rows = []
    for finding in inspect.verify(directory):
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
            mend="copy the folder before you do anything else; the findings name what is lost",
        )


@app.command()
def dump(
    directory: _Directory = Path("data/journal"),
    first: Annotated[int, typer.Option("--from", min=0, help="position to begin at")] = 0,
    bodies: Annotated[bool, typer.Option("--bodies", help="show the messages' bodies as well")] = False,
) -> None:
    """Print the records, one JSON object a line, in the order of the files."""
    from broker_app.journal import inspect

    _check(directory)
    readers: dict[str, Reader] = {}
    for batch in inspect.dump(directory, first_position=first):
        for record in batch["records"]:
            print(json.dumps(_readable(batch, record, readers, bodies), ensure_ascii=False))


def _check(directory: Path) -> None:
    if not directory.is_dir():
        raise Failure(
            NOT_FOUND,
            "there is no such folder",
            where=str(directory),
            mend="it is called journal, in the broker's data directory",
        )


def _readable(
    batch: dict[str, Any], record: dict[str, Any], readers: dict[str, Reader], bodies: bool
) -> dict[str, Any]:
    """One record with its numbers decoded."""
    from broker_app.core import records

    content: bytes = record["content"]
    kind, flags, priority, destination, start, end = next(records.walk(content))
    address = batch["destinations"][destination]
    shown: dict[str, Any] = {"position": record["position"], "file": batch["file"], "destination": address}
    if kind == records.PUBLISHED:
        message = readers.setdefault(address, records.Reader(address)).message(content, record["position"])
        shown |= {
            "record": "published",
            "time_ms": message.time_ms,
            "priority": priority,
            "bytes": len(message.body),
        }
        shown["headers"] = message.envelope.block.decode(errors="backslashreplace")
        if bodies:
            shown["body"] = message.body.decode(errors="backslashreplace")
        return shown
    numbers = records.positions(content, start, end).tolist()
    if kind == records.ACKED:
        return {**shown, "record": "gone", "cause": records.CAUSES[flags], "positions": numbers}
    if kind == records.DELIVERED:
        return {**shown, "record": "delivered", "priority": priority, "up_to": numbers[0]}
    if kind == records.RETURNED:
        return {
            **shown,
            "record": "returned",
            "attempts": dict(zip(numbers[::2], numbers[1::2], strict=True)),
        }
    return {**shown, "record": f"type {kind}"}
