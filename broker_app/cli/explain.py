"""`mom queue why`: why a message is where it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from broker_app.cli import invocation
from broker_app.cli.destinations import queue_name
from broker_app.cli.failures import NOT_FOUND, Failure

if TYPE_CHECKING:
    from broker_app.cli.rest import Rest

_COLUMNS = ("code", "sentence")


def why(
    ctx: typer.Context,
    message_id: Annotated[str, typer.Argument(metavar="MSGID", help="id of the message")],
    queue: Annotated[
        str | None, typer.Option("--queue", "-Q", help="where it is; without, all queues are looked through")
    ] = None,
) -> None:
    """Say why a message is where it is, and what it waits for."""
    given = invocation.of(ctx)
    rest = given.rest()
    names = [queue_name(queue)] if queue else [row["name"] for row in rest.pages("/queues")]
    for name in names:
        found = _ask(rest, message_id, name, certain=queue is not None)
        if found is not None:
            given.output.say(f"{found['state']} in queue {name}")
            given.output.rows(_COLUMNS, found["reasons"], whole=True)
            return
    raise Failure(NOT_FOUND, f"there is no message {message_id!r} in any queue")


def _ask(rest: Rest, message_id: str, queue: str, *, certain: bool) -> dict[str, Any] | None:
    """The answer of the broker; None when the message is not in that queue, unless it is `certain`."""
    try:
        answer: dict[str, Any] = rest.get(f"/messages/{quote(message_id, safe='')}/why", queue=queue)
    except Failure as failure:
        if certain or failure.code != NOT_FOUND:
            raise
        return None
    return answer
