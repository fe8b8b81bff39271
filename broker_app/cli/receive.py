"""`mom get` and `mom browse`: messages of a queue, taken or only looked at."""

from __future__ import annotations

import base64
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from broker_app.cli import completion, invocation
from broker_app.cli.bulk import WHERE
from broker_app.cli.failures import EMPTY, FAILED, NOT_FOUND, REFUSED, USAGE, Failure

if TYPE_CHECKING:
    from broker_app.cli.rest import Rest

#: of one request; a longer wait is several
_LONGEST_WAIT_S = 20.0

_GOT = ("id", "time", "attempt", "content_type", "body")
_LEFT = ("receipt", "lease_until", *_GOT)
_BROWSED = ("id", "time", "state", "attempt", "size", "content_type", "body")


def get(
    ctx: typer.Context,
    queue: Annotated[str, typer.Argument(help="name of the queue", autocompletion=completion.queues)],
    count: Annotated[
        int, typer.Option("-n", "--count", min=1, max=1000, help="messages to take at most")
    ] = 1,
    wait: Annotated[float, typer.Option(min=0, help="seconds to wait for the first message")] = 0.0,
    lease: Annotated[
        float | None,
        typer.Option(min=1, help="seconds in which they must be settled", show_default="the broker's"),
    ] = None,
    ack: Annotated[
        bool, typer.Option("--ack", help="acknowledge them once they are shown; the default")
    ] = False,
    nack: Annotated[bool, typer.Option("--nack", help="give them back once they are shown")] = False,
    leave: Annotated[bool, typer.Option("--leave", help="settle nothing: their leases run on")] = False,
) -> None:
    """Take messages from a queue. An empty queue is exit code 6, none of that name 3."""
    if ack + nack + leave > 1:
        raise Failure(USAGE, "--ack, --nack and --leave exclude each other")
    given = invocation.of(ctx)
    rest = given.rest()
    if not wait:
        _check_there(rest, queue)
    items = _receive(rest, queue, count, wait, lease)
    if not items:
        raise Failure(EMPTY, f"queue {queue} had no message" + (f" for {wait:g} s" if wait else ""))
    given.output.rows(_LEFT if leave else _GOT, map(_with_body, items), whole=True)
    if not leave:
        _settle(rest, "nack" if nack else "ack", [item["receipt"] for item in items])


def browse(
    ctx: typer.Context,
    queue: Annotated[str, typer.Argument(help="name of the queue", autocompletion=completion.queues)],
    count: Annotated[int, typer.Option("-n", "--count", min=1, help="messages to show at most")] = 50,
    where: Annotated[str | None, typer.Option("--where", help=WHERE, show_default="all")] = None,
) -> None:
    """Look at the messages of a queue. Nothing is taken and nothing changes."""
    from broker_app.cli.rest import queue_path

    given = invocation.of(ctx)
    items = given.rest().pages(queue_path(queue, "messages"), limit=count, where=where)
    given.output.rows(_BROWSED, map(_with_body, items), whole=True)


def _check_there(rest: Rest, queue: str) -> None:
    """Raises Failure where there is no such queue: receiving makes one, and a mistyped name would not be
    noticed."""
    from broker_app.cli.rest import queue_path

    try:
        rest.get(queue_path(queue))
    except Failure as failure:
        if failure.code == NOT_FOUND:
            failure.fix = "its first message makes it; with --wait this waits for that"
            raise
        if failure.code != REFUSED:  # who may receive alone, may not ask
            raise


def _receive(
    rest: Rest, queue: str, count: int, wait_s: float, lease_s: float | None
) -> list[dict[str, Any]]:
    """Up to `count` messages, as soon as there is one; none when the wait is over."""
    from broker_app.cli.rest import queue_path

    wish: dict[str, Any] = {"max": count}
    if lease_s is not None:
        wish["lease_s"] = lease_s
    deadline = time.monotonic() + wait_s
    while True:
        wish["wait_s"] = left_s = max(0.0, min(_LONGEST_WAIT_S, deadline - time.monotonic()))
        items: list[dict[str, Any]] = rest.call("POST", queue_path(queue, "receive"), wish, wait_s=left_s)[
            "items"
        ]
        if items or time.monotonic() >= deadline:
            return items


def _settle(rest: Rest, deed: str, receipts: list[str]) -> None:
    wish = {"ack": receipts} if deed == "ack" else {"nack": [{"receipt": receipt} for receipt in receipts]}
    reply = rest.call("POST", "/leases/settle", wish)
    errors = [item["error"] for items in reply.values() for item in items if "error" in item]
    if errors:
        raise Failure(
            FAILED,
            f"{len(errors)} of {len(receipts)} messages could not be settled: {errors[0]['detail']}",
            fix="they come again; a longer --lease gives more time",
        )


def _with_body(item: dict[str, Any]) -> dict[str, Any]:
    """The item with a readable `body`, whatever form it came in."""
    if "body" in item:
        return item
    raw = base64.b64decode(item["body_base64"])
    return {**item, "body": raw.decode(errors="backslashreplace")}
