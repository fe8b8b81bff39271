"""`mom cluster`: brokers that deliver messages to the consumers of all others."""

from __future__ import annotations

import typer

from broker_app.cli.cluster_demo import demo

app = typer.Typer(
    no_args_is_help=True,
    help="""Try and operate a cluster: brokers that deliver messages to the consumers of all others.

    Each is started with `mom up --cluster-port 7676 --cluster HOST1,HOST2,HOST3` and the secret of all,
    in MOM_CLUSTER_SECRET. `mom cluster demo` starts three of them on this machine.
    """,
)


@app.callback()
def _group() -> None:
    """A group of commands, also while it has one."""


app.command()(demo)
