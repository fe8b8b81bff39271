"""`mom broker run`: runs a broker, with the options of OpenMOM's command line."""

from __future__ import annotations

import os
import re
from typing import Annotated

import typer

from broker_app import config
from broker_app.base.settings import roles
from broker_app.cli.base.failures import USAGE, Failure
from broker_app.cli.broker.up import run_broker
from broker_app.cli.configuration.resources import brokers
from broker_app.features.cluster.configuration import settings

#: `mom broker`, with `run`
app = brokers
_TCP = frozenset(("ncacn_ip_tcp", "tcp"))
_SEPARATOR = re.compile(r"[,;+\s]+")
_ENDPOINT = re.compile(r"(?:(?P<host>\[[0-9a-fA-F:.]+\]|[^:\s]+):)?(?P<port>\d{1,5})")
_LAST_PORT = 65535
#: how names of OpenMOM's files end
_CNF = ".cnf"


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
            help="1 for a main, -1 for its mirror, -2 for a callback broker (--role)",
            show_default=str(roles.MAIN),
        ),
    ] = None,
    config_file: Annotated[
        str | None,
        typer.Option(
            "-c",
            metavar="FILE",
            help="NAME.cnf: OpenMOM's reflexes (--reflex-file); else a zero.config file (--config-file)",
        ),
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
        str | None,
        typer.Option(
            "-p", metavar="PROTOCOLS", help="ncacn_ip_tcp, or a set with it: TCP/IP is what is used"
        ),
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

    A callback broker serves the programs of its user on this machine: it is notified of messages for them by
    remote brokers, so that they need not poll these over the network. Its name is REcallback.

    A FILE whose name ends in .cnf is one of OpenMOM, with lines S, F, G, R and D: they declare reflexes,
    functions that decide about messages and services (docs/reflexes.md). CBdefault.cnf and REcallback.cnf
    come with MOM, and are found by name. Any other FILE is one of MOM, see docs/configuration.md. Bridges
    (`mom bridge`) take the place of routes.

    Example: a main and its mirror on one machine:

        mom broker run -s B1 -r 1 -e 61613 --journal file:/srv/B1 --data b1 --port 8001

        mom broker run -s B1 -r -1 -e 61614 --journal file:/srv/B1 --data b2 --port 8002

    Example: a broker whose services callback brokers may serve:

        mom broker run -s B1 -c CBdefault.cnf

    Example: a callback broker:

        mom broker run -s REcallback -r -2
    """
    if protocol is not None and not _TCP & set(_SEPARATOR.split(protocol)):
        raise Failure(
            USAGE,
            f"-p: the protocols {protocol!r} do not include TCP/IP, by which brokers are reached",
            fix="leave -p out, or write ncacn_ip_tcp, alone or with others: -p ncalrpc,ncacn_ip_tcp",
        )
    if routes is not None:
        raise Failure(
            USAGE,
            "-x: files of routes cannot be read",
            fix="forward queues with bridges: see `mom bridge create --help`, or the file of -c",
        )
    of_file = "--reflex-file" if (config_file or "").lower().endswith(_CNF) else "--config-file"
    given = {"--name": name, "--role": role, of_file: config_file}
    options = [part for option, value in given.items() if value is not None for part in (option, value)]
    run_broker([*options, *_listeners(endpoint, [*options, *ctx.args]), *ctx.args])


def _listeners(endpoint: str | None, others: list[str]) -> list[str]:
    """The options of `mom up` for an endpoint; a free port without one, unless another setting has a port."""
    if endpoint is None:
        known = settings.load({**os.environ, **config.options_in(others)})
        return [] if "stomp_port" in known.sources else ["--stomp-port", "0"]
    found = _ENDPOINT.fullmatch(endpoint)
    if endpoint.startswith("failover:"):
        raise Failure(
            USAGE,
            f"-e: a broker cannot listen at {endpoint!r}: failover is for clients",
            fix="write the PORT or HOST:PORT of this broker alone; it sends clients the list of its mirrors",
        )
    if found is None or int(found["port"]) > _LAST_PORT:
        raise Failure(
            USAGE,
            f"-e: {endpoint!r} is not an endpoint",
            fix=f"write PORT or HOST:PORT, with a port up to {_LAST_PORT}; 0 takes a free one",
        )
    host = ["--host", found["host"].strip("[]")] if found["host"] else []
    return [*host, "--stomp-port", found["port"]]
