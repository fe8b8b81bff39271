"""`mom get` and `mom browse`: consume or only show messages of a queue."""

from __future__ import annotations

import base64
import time
from typing import TYPE_CHECKING, Annotated

import typer

from broker_app.base.reply_types import Facts
from broker_app.cli.base import completion, invocation
from broker_app.cli.base.failures import EMPTY, FAILED, NOT_FOUND, REFUSED, USAGE, Failure
from broker_app.cli.base.options import span
from broker_app.cli.messages.bulk import WHERE

if TYPE_CHECKING:
    from broker_app.cli.base.rest import Rest

#: longest wait of one request; a longer one takes several
_LONGEST_WAIT_S = 20.0

_RECEIVED = ("id", "time", "attempt", "content_type", "body")
_LEASED = ("receipt", "lease_until", *_RECEIVED)
_BROWSED = ("id", "time", "state", "attempt", "size", "content_type", "body")


def get(
    ctx: typer.Context,
    queue: Annotated[str, typer.Argument(help="name of the queue", autocompletion=completion.queues)],
    count: Annotated[
        int, typer.Option("-n", "--count", min=1, max=1000, help="maximum number of messages")
    ] = 1,
    wait: Annotated[float, typer.Option(parser=span(), help="time to wait for the first message: 10s")] = 0.0,
    lease: Annotated[
        float | None,
        typer.Option(
            parser=span(1), help="time within which to settle them: 5m", show_default="the broker's"
        ),
    ] = None,
    ack: Annotated[bool, typer.Option("--ack", help="acknowledge the messages (default)")] = False,
    nack: Annotated[bool, typer.Option("--nack", help="return the messages to the queue")] = False,
    leave: Annotated[
        bool, typer.Option("--leave", help="do not settle; print the receipts of the leases")
    ] = False,
) -> None:
    """Receive messages from a queue. Exit code 6 if it is empty, 3 if it does not exist."""
    if ack + nack + leave > 1:
        raise Failure(USAGE, "--ack, --nack and --leave exclude each other", fix="give only one of them")
    given = invocation.of(ctx)
    rest = given.rest()
    if not wait:
        _check_exists(rest, queue)
    items = _receive(rest, queue, count, wait, lease)
    if not items:
        raise Failure(EMPTY, f"queue {queue} had no message" + (f" for {wait:g} s" if wait else ""))
    given.output.rows(_LEASED if leave else _RECEIVED, map(_with_body, items), whole=True)
    if not leave:
        _settle(rest, "nack" if nack else "ack", [item["receipt"] for item in items])


def browse(
    ctx: typer.Context,
    queue: Annotated[str, typer.Argument(help="name of the queue", autocompletion=completion.queues)],
    count: Annotated[int, typer.Option("-n", "--count", min=1, help="maximum number of messages")] = 50,
    where: Annotated[str | None, typer.Option("--where", help=WHERE, show_default="all")] = None,
) -> None:
    """Show the messages of a queue without consuming them; in a cluster, those of all brokers."""
    from broker_app.cli.base.rest import queue_path

    given = invocation.of(ctx)
    missing: dict[str, None] = {}
    columns: tuple[str, ...] = _BROWSED

    def note(page: Facts) -> None:
        nonlocal columns
        missing.update(dict.fromkeys(page["not_shown"]))
        columns = ("broker", *_BROWSED) if "broker" in page else _BROWSED

    items = list(given.rest().pages(queue_path(queue, "messages"), limit=count, where=where, on_page=note))
    given.output.rows(columns, map(_with_body, items), whole=True)
    if missing:
        given.output.say(
            f"not shown: the messages of {', '.join(missing)}, which cannot be asked now or have not "
            "answered in time; `mom cluster status` says why"
        )


def _check_exists(rest: Rest, queue: str) -> None:
    """Raise Failure if the queue does not exist. Receiving would create it, and a typo would go unnoticed."""
    from broker_app.cli.base.rest import queue_path

    try:
        rest.get(queue_path(queue))
    except Failure as failure:
        if failure.code == NOT_FOUND:
            failure.fix = "the first message creates it; --wait waits for that message"
            raise
        if failure.code != REFUSED:  # a user may have the right to receive only
            raise


def _receive(rest: Rest, queue: str, count: int, wait_s: float, lease_s: float | None) -> list[Facts]:
    """Return up to `count` messages as soon as there is one; none when the time is over."""
    from broker_app.cli.base.rest import queue_path

    request: dict[str, float] = {"max": count}
    if lease_s is not None:
        request["lease_s"] = lease_s
    deadline = time.monotonic() + wait_s
    while True:
        request["wait_s"] = left_s = max(0.0, min(_LONGEST_WAIT_S, deadline - time.monotonic()))
        items: list[Facts] = rest.call("POST", queue_path(queue, "receive"), request, wait_s=left_s)["items"]
        if items or time.monotonic() >= deadline:
            return items


def _settle(rest: Rest, action: str, receipts: list[str]) -> None:
    request = (
        {"ack": receipts} if action == "ack" else {"nack": [{"receipt": receipt} for receipt in receipts]}
    )
    reply = rest.call("POST", "/leases/settle", request)
    errors = [item["error"] for items in reply.values() for item in items if "error" in item]
    if errors:
        raise Failure(
            FAILED,
            f"{len(errors)} of {len(receipts)} messages could not be settled: {errors[0]['detail']}",
            fix="they will be delivered again; increase --lease",
        )


def _with_body(item: Facts) -> Facts:
    """The item with a decoded `body`."""
    if "body" in item:
        return item
    raw = base64.b64decode(item["body_base64"])
    return {**item, "body": raw.decode(errors="backslashreplace")}
