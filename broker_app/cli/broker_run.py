"""`mom broker run`: runs a broker, with the options of OpenMOM's command line."""

from __future__ import annotations

import os
import re
from typing import Annotated

import typer

from broker_app import config
from broker_app.cli.failures import USAGE, Failure
from broker_app.cli.resources import brokers as app
from broker_app.cli.up import run_broker

_TCP = ("ncacn_ip_tcp", "tcp")
_ENDPOINT = re.compile(r"(?:(?P<host>\[[0-9a-fA-F:.]+\]|[^:\s]+):)?(?P<port>\d{1,5})")
_LAST_PORT = 65535


@app.command(context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
def run(
    ctx: typer.Context,
    name: Annotated[
        str | None,
        typer.Option("-s", metavar="NAME", help="name of the broker (--name)", show_default="mom"),
    ] = None,
    role: Annotated[
        str | None,
        typer.Option(
            "-r",
            metavar="ROLE",
            help="1 for a main, -1 for its mirror (--role)",
            show_default=str(config.MAIN),
        ),
    ] = None,
    config_file: Annotated[
        str | None, typer.Option("-c", metavar="FILE", help="zero.config file (--config-file)")
    ] = None,
    endpoint: Annotated[
        str | None,
        typer.Option(
            "-e",
            metavar="ENDPOINT",
            help="PORT or HOST:PORT for STOMP clients (--stomp-port, --host)",
            show_default="a free port",
        ),
    ] = None,
    protocol: Annotated[
        str | None, typer.Option("-p", metavar="PROTOCOL", help="ncacn_ip_tcp: only TCP/IP is supported")
    ] = None,
    routes: Annotated[str | None, typer.Option("-x", metavar="FILE", hidden=True)] = None,
) -> None:
    """Run a broker as OpenMOM's users start one: `mom up`, with -s, -r, -c and -e for its settings.

    All options of `mom up` can follow, such as --journal, --data and --port; `mom up --help` lists them.
    Without -e, STOMP takes a free port, unless a setting names one; the broker prints its addresses when it
    is ready.

    A main and its mirror have the same name and the same shared journal, and differ by their role. The first
    that starts serves. The other one follows it, refuses clients with the address of the active broker, and
    takes over when that fails. Without a running main, a mirror serves, and reports that there is no main.

    FILE is a file of MOM, see docs/configuration.md. OpenMOM's files, with lines S, F, G and R, cannot be
    read: rules (`mom rule`) take the place of filters, and bridges (`mom bridge`) that of routes.

    Example: a main and its mirror on one machine:

        mom broker run -s B1 -r 1 -e 61613 --journal file:/srv/B1 --data b1 --port 8001

        mom broker run -s B1 -r -1 -e 61614 --journal file:/srv/B1 --data b2 --port 8002
    """
    if protocol is not None and protocol not in _TCP:
        raise Failure(
            USAGE,
            f"-p: there is no protocol {protocol!r}",
            fix="leave -p out; brokers use TCP/IP, -p ncacn_ip_tcp",
        )
    if routes is not None:
        raise Failure(
            USAGE,
            "-x: files of routes cannot be read",
            fix="forward queues with bridges: see `mom bridge create --help`, or the file of -c",
        )
    given = {"--name": name, "--role": role, "--config-file": config_file}
    options = [part for option, value in given.items() if value is not None for part in (option, value)]
    run_broker([*options, *_listeners(endpoint, [*options, *ctx.args]), *ctx.args])


def _listeners(endpoint: str | None, others: list[str]) -> list[str]:
    """The options of `mom up` for an endpoint; a free port without one, unless another setting has a port."""
    if endpoint is None:
        known = config.load({**os.environ, **config.options_in(others)})
        return [] if "stomp_port" in known.sources else ["--stomp-port", "0"]
    found = _ENDPOINT.fullmatch(endpoint)
    if found is None or int(found["port"]) > _LAST_PORT:
        raise Failure(
            USAGE,
            f"-e: {endpoint!r} is not an endpoint",
            fix=f"write PORT or HOST:PORT, with a port up to {_LAST_PORT}; 0 takes a free one",
        )
    host = ["--host", found["host"].strip("[]")] if found["host"] else []
    return [*host, "--stomp-port", found["port"]]
