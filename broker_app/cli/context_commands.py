"""`mom context`: named brokers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from broker_app.base.reply_types import Facts
from broker_app.cli.base import completion, invocation
from broker_app.cli.base.contexts import DEFAULT_URL, Context, Contexts, read_token
from broker_app.cli.base.failures import NOT_FOUND, USAGE, Failure

app = typer.Typer(
    no_args_is_help=True, help="Save brokers under names, and select the one that commands use."
)

_COLUMNS = ("name", "url", "current", "production", "token")


@app.command()
def add(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="name of the context; replaces an existing one")],
    token_command: Annotated[
        str, typer.Option(help="command that prints the token, like 'pass show mom'")
    ] = "",
    production: Annotated[
        bool, typer.Option("--production", help="confirm deletions by typing the name")
    ] = False,
) -> None:
    """Save --url, --token-file, --ca-file and --cert-file under a name. The first context becomes the current
    one."""
    given = invocation.of(ctx)
    if not given.url:
        raise Failure(USAGE, "a context needs the address of its broker", fix=f"add --url {DEFAULT_URL}")
    if given.token_file and token_command:
        raise Failure(
            USAGE, "--token-file and --token-command exclude each other", fix="give only one of them"
        )
    token_file = ""
    if given.token_file:
        read_token(given.token_file)
        token_file = _absolute(given.token_file)
    contexts = Contexts()
    ca_file, cert_file = (_absolute(path) for path in (given.ca_file, given.cert_file))
    contexts.add(Context(name, given.url, token_file, token_command, production, ca_file, cert_file))
    current = "; it is the current one" if contexts.current == name else ""
    given.output.say(f"context {name} is saved in {contexts.path}{current}")


@app.command()
def use(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="name of the context", autocompletion=completion.context_names)],
) -> None:
    """Select the context that following commands use."""
    Contexts().use(name)
    invocation.of(ctx).output.say(f"commands now use {name}")


@app.command("ls")
def list_contexts(ctx: typer.Context) -> None:
    """List contexts."""
    contexts = Contexts()
    rows = [_facts(contexts, context) for context in contexts.known.values()]
    invocation.of(ctx).output.rows(_COLUMNS, rows)


@app.command()
def show(
    ctx: typer.Context,
    name: Annotated[
        str,
        typer.Argument(
            help="name of the context", show_default="the current", autocompletion=completion.context_names
        ),
    ] = "",
) -> None:
    """Show a context: its address, and where its token and its certificates are. The token is not shown."""
    contexts = Contexts()
    if not (name or contexts.current):
        raise Failure(NOT_FOUND, "no context is the current one", fix="name one of `mom context ls`")
    context = contexts.get(name or contexts.current)
    files = {"ca_file": context.ca_file, "cert_file": context.cert_file}
    token_command = {"token_command": context.token_command} if context.token_command else {}
    invocation.of(ctx).output.facts({**_facts(contexts, context), **token_command, **files})


@app.command()
def rm(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="name of the context", autocompletion=completion.context_names)],
) -> None:
    """Remove a context. Its broker and its token stay as they are."""
    contexts = Contexts()
    contexts.remove(name)
    none = "" if contexts.current else "; no context is the current one"
    invocation.of(ctx).output.say(f"context {name} is removed{none}")


def _facts(contexts: Contexts, context: Context) -> Facts:
    return {
        "name": context.name,
        "url": context.url,
        "current": context.name == contexts.current,
        "production": context.production,
        "token": context.token_file or ("command" if context.token_command else ""),
    }


def _absolute(path: str | None) -> str:
    return str(Path(path).expanduser().resolve()) if path else ""
