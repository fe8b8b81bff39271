"""`mom queue why`: explains the state of a message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer

from broker_app.base.reply_types import Facts
from broker_app.cli.base import invocation
from broker_app.cli.base.failures import NOT_FOUND, USAGE, Failure
from broker_app.cli.destinations import queue_name

if TYPE_CHECKING:
    from broker_app.cli.base.rest import Rest

_COLUMNS = ("code", "sentence")


def why(
    ctx: typer.Context,
    words: Annotated[
        list[str], typer.Argument(metavar="[QUEUE] MSGID", help="queue of the message, and its id")
    ],
    queue: Annotated[
        str | None, typer.Option("--queue", "-Q", help="queue of the message; default: search all queues")
    ] = None,
) -> None:
    """Explain why a message is in a queue, and what it waits for."""
    given = invocation.of(ctx)
    *named, message_id = words
    if len(named) > 1 or (named and queue):
        raise Failure(USAGE, "more than one queue is given", fix="write `mom queue why QUEUE MSGID`")
    queue = named[0] if named else queue
    rest = given.rest()
    names, absent = ([queue_name(queue)], "") if queue else _queues(rest, message_id)
    # Of many queues only this broker's: each of the others might look through all that waits in each.
    scope = "cluster" if len(names) == 1 else "broker"
    for name in names:
        found = _ask(rest, message_id, name, scope, certain=queue is not None)
        if found is not None:
            where = f" at broker {found['broker']}" if "broker" in found else ""
            given.output.say(f"{found['state']} in queue {name}{where}")
            given.output.rows(_COLUMNS, found["reasons"], whole=True)
            return
    raise Failure(NOT_FOUND, absent, fix="`mom browse QUEUE` lists messages with their ids")


def _queues(rest: Rest, message_id: str) -> tuple[list[str], str]:
    """The queue of a message. If its id does not lead to one, as that of a message that was moved: all
    queues, and what to report if it is in none."""
    try:
        return [rest.get(f"/messages/{quote(message_id, safe='')}/queue")["queue"]], "it has just gone"
    except Failure as failure:
        if failure.code != NOT_FOUND:
            raise
        return [row["name"] for row in rest.pages("/queues")], failure.what


def _ask(rest: Rest, message_id: str, queue: str, scope: str, *, certain: bool) -> Facts | None:
    """The broker's explanation. None, or a Failure if `certain`, when the message is not in that queue."""
    try:
        answer: Facts = rest.get(f"/messages/{quote(message_id, safe='')}/why", queue=queue, scope=scope)
    except Failure as failure:
        if certain or failure.code != NOT_FOUND:
            raise
        return None
    return answer
