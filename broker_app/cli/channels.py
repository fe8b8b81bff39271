"""`mom channel`: messages and requests to applications at the brokers of a cluster."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from broker_app.base.reply_types import Facts
from broker_app.cli.base import invocation
from broker_app.cli.base.exec_option import words_of
from broker_app.cli.base.failures import FAILED, Failure
from broker_app.cli.base.options import Span, span
from broker_app.cli.messages.publish import content

if TYPE_CHECKING:
    from mom_client.channels import ResponseChannel

app = typer.Typer(
    no_args_is_help=True,
    help="""Send messages and requests to applications at the brokers of a cluster (docs/channels.md).

    A site is a broker, by its name; $master is the one that keeps the change record (quote it: '$master').
    Nothing is stored and nothing is repeated: a message goes to an application that serves requests there
    now, and a request waits for its answer. A broker without a cluster is one site, and its own master.
    """,
)

_COLUMNS = (
    "name", "is_here", "is_master", "linked", "handlers", "functions", "in_flight", "sent", "received",
    "round_trip_ms", "dropped", "failed",
)  # fmt: skip
_BY_REASON = ("dropped", "failed")
_CALL = ("from", "need_response", "parts")

_Site = Annotated[str, typer.Argument(help="name of a broker of the cluster, or '$master'")]
_Parts = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="PART...",
        help="the parts; - reads standard input, @FILE a file, @@ starts with an @",
        show_default="standard input",
    ),
]


@app.command("ls")
def list_sites(
    ctx: typer.Context,
    q: Annotated[str | None, typer.Option("--filter", help="words of the name, or a pattern")] = None,
    sort: Annotated[
        str | None, typer.Option(help="columns to sort by, - for descending: -in_flight,name")
    ] = None,
) -> None:
    """List the sites: which one is the master, which are linked, how many handlers each has.

    `functions` are the handlers of this site that are reflexes of its broker (`mom reflex ls`).
    `dropped` is what came from a site and reached no application, `failed` are requests to it, both with the
    reasons; `round_trip_ms` is the average time of the latest answers.
    """
    given = invocation.of(ctx)
    rows = given.rest().pages("/sites", q=q, sort=sort)
    given.output.rows(_COLUMNS, (_row(row, given.output.form) for row in rows))


@app.command()
def send(ctx: typer.Context, site: _Site, parts: _Parts = None) -> None:
    """Send a message to an application at a site. Without one that serves requests it is dropped there."""
    given = invocation.of(ctx)
    given.rest().call("POST", _path(site, "messages"), _body(parts), query={"parts": "true"})
    given.output.say(f"sent to {site}")


@app.command()
def request(
    ctx: typer.Context,
    site: _Site,
    parts: _Parts = None,
    timeout: Annotated[float, typer.Option(parser=span(0.001), help="time for the answer: 5s")] = Span(5),
) -> None:
    """Send a request to an application at a site, and print its answer, each part in a line.

    It is never repeated. When no answer comes, or the site goes away, the outcome is unknown: it may have
    been carried out.
    """
    given = invocation.of(ctx)
    query = {"parts": "true", "multiple": "true", "timeout_ms": round(timeout * 1000)}
    answer = given.rest().call("POST", _path(site, "requests"), _body(parts), query=query, wait_s=timeout)
    for part in answer["parts"]:
        sys.stdout.buffer.write(_bytes_of(part) + b"\n")
    sys.stdout.buffer.flush()


@app.command()
def serve(
    ctx: typer.Context,
    execute: Annotated[
        str | None,
        typer.Option(
            "--exec",
            metavar="COMMAND",
            help="run for each call, its output is the answer; {} are the parts, also on standard input",
        ),
    ] = None,
    answer: Annotated[str, typer.Option(help="the answer to each request, without --exec")] = "ok",
    count: Annotated[
        int | None,
        typer.Option("-n", "--count", min=1, help="end after this many calls", show_default="never"),
    ] = None,
) -> None:
    """Serve the requests to this site until Ctrl-C: print each, and answer it.

    With --exec './prices {}' the request `mom channel request b1 get AAPL` runs `./prices get AAPL`, and what
    that prints is the answer. Requests of a command that fails have none. Several programs that serve one
    site take turns.
    """
    given = invocation.of(ctx)
    served = _Served(
        words_of(execute, "./prices {}"), answer.encode(), count, given.output.row, given.output.warn
    )
    import asyncio  # here, and below: other commands start sooner without it

    asyncio.run(_serve(given, served))
    if served.failed:
        raise Failure(
            FAILED, f"the command failed for {served.failed} of {served.calls} calls", fix="see above"
        )


@dataclass(slots=True)
class _Served:
    """The calls that are served: by a command, or all with the same answer."""

    command: list[str]
    answer: bytes
    count: int | None
    row: Callable[[Sequence[str], Any], None]
    warn: Callable[[str], None]
    calls: int = 0
    failed: int = 0

    async def take(self, channel: ResponseChannel, parts: list[bytes], need_response: bool) -> None:
        """Print one call, and answer it."""
        self.calls += 1
        shown = [part.decode(errors="backslashreplace") for part in parts]
        self.row(_CALL, {"from": channel.site, "need_response": need_response, "parts": shown})
        answer = await self._run(parts) if self.command else self.answer
        if answer is not None and need_response:
            await channel.send_msg([answer])

    async def _run(self, parts: list[bytes]) -> bytes | None:
        """The output of the command; None if it has failed."""
        import asyncio

        texts = [part.decode(errors="surrogateescape").replace("\0", "") for part in parts]
        words = [text for word in self.command for text in (texts if word == "{}" else [word])]
        try:
            process = await asyncio.create_subprocess_exec(
                *words, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
            )
        except OSError as error:
            self.warn(f"--exec: {words[0]}: {error.strerror}; name an executable program")
            self.failed += 1
            return None
        output, _ = await process.communicate(b"".join(parts))
        if process.returncode:
            self.warn(f"--exec: {words[0]} ended with {process.returncode}; the request has no answer")
            self.failed += 1
            return None
        return output


async def _serve(given: invocation.Invocation, served: _Served) -> None:
    import asyncio

    import mom_client
    from broker_app.cli.base import wire

    target, finished = given.target(), asyncio.Event()

    async def handle(channel: ResponseChannel, parts: list[bytes], need_response: bool) -> None:
        try:
            await served.take(channel, parts, need_response)
        finally:
            if served.count is not None and served.calls >= served.count:
                finished.set()

    with wire.failures(target.stomp):
        async with mom_client.environment(target.stomp, **wire.login_of(target)) as env:
            await env.repmgr_msg_dispatch(handle)
            await env.repmgr_start()
            given.output.say(f"serves the requests of site {env.site}; Ctrl-C to stop")
            await finished.wait()


def _path(site: str, kind: str) -> str:
    return f"/sites/{quote(site, safe='')}/{kind}"


def _body(parts: list[str] | None) -> dict[str, object]:
    """The parts as the API takes them."""
    return {"parts": [_part(content(part)) for part in parts or (None,)]}


def _part(body: bytes) -> dict[str, str]:
    import base64

    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"body_base64": base64.b64encode(body).decode()}


def _bytes_of(part: dict[str, str]) -> bytes:
    import base64

    return part["body"].encode() if "body" in part else base64.b64decode(part["body_base64"])


def _row(row: Facts, form: str) -> Facts:
    """A site as it is printed: counts by reason are one text, but for programs."""
    if form in ("json", "ndjson", "yaml"):
        return row
    texts = {name: ", ".join(f"{why} {count}" for why, count in row[name].items()) for name in _BY_REASON}
    return {**row, **texts}
