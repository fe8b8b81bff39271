"""The program behind `node_process`: it has loaded everything that a node needs, and becomes one by forking.

Orders come as lines on standard input, each an `Order` pickled in base64; answers go to standard output, as
`PID` when a node was forked and `PID WEB STOMP` with its ports when it serves. When the input ends, so do
the nodes.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gc
import logging
import os
import pickle
import signal
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import uvloop

from broker_app.config import PREFIX, Config
from broker_app.features.cluster.configuration import settings as cluster_settings
from broker_app.net import asyncapi
from broker_app.net.auth.login import Logins
from broker_app.net.operator_audit import OperatorActions
from broker_app.net.policy.policy import Policy
from broker_app.net.server.listeners import Ports, bound
from broker_app.node import node
from broker_app.node.process import Site, run
from broker_app.reflex import cnf
from broker_app.rules.rule import Rule
from broker_app.rules.ruleset import Rules

_log = logging.getLogger(__name__)


class Order(NamedTuple):
    """A node: its settings, its policy, where its log goes, and the rules of the policy, which are compiled
    there."""

    settings: dict[str, Any]
    policy: Policy
    log_file: Path
    rules: tuple[Rule, ...] = ()

    def line(self) -> bytes:
        return base64.b64encode(pickle.dumps(self)) + b"\n"


def main() -> None:
    signal.signal(signal.SIGCHLD, _reap)
    asyncapi.document()  # the part of it that takes long is the same for all
    gc.freeze()  # or each node would look at all of it when it starts
    lifeline, held = os.pipe()
    for line in sys.stdin.buffer:
        order: Order = pickle.loads(base64.b64decode(line))
        pid = os.fork()
        if not pid:
            os.close(held)
            os._exit(become(order, lifeline))
        os.write(1, b"%d\n" % pid)
    os.close(held)
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()


def _reap(*_: object) -> None:
    """Wait for the nodes that have ended, so that this process has their processor time."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def become(order: Order, lifeline: int) -> int:
    """Be this node until it ends, or until the other end of `lifeline` is closed; the exit status."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    answers = os.dup(1)
    log = os.open(order.log_file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115 -- for as long as the process lives
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    try:
        uvloop.run(_serve(order, lifeline, answers))
    except BaseException:
        _log.exception("the node failed")
        return 1
    return 0


class _Variables:
    """The settings of an order as variables, below which there is a central file."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._environment = {
            f"{PREFIX}{name.upper()}": ",".join(value) if isinstance(value, tuple) else str(value)
            for name, value in values.items()
        }

    def read(self) -> Config:
        return cluster_settings.load(self._environment)

    def use(self, changes: Mapping[str, Any]) -> None:
        """The node itself has them."""


def _app(running: node.Node) -> Any:
    """The REST API and WebSockets of a node."""

    async def serve(scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "websocket":
            await running.serve_websocket(scope, receive, send, None)
        else:
            await running.rest(scope, receive, send)

    return serve


async def _serve(order: Order, lifeline: int, answers: int) -> None:
    asyncio.get_running_loop().add_reader(lifeline, os._exit, 0)
    policy = replace(order.policy, rules=Rules(order.rules))
    logins = Logins(policy, lambda given, expected: given == expected, failure_delay_s=0.01)

    def ready(ports: Ports) -> None:
        os.write(answers, b"%d %d %d\n" % (os.getpid(), ports.web, ports.stomp or 0))

    async def never(_: object) -> None:
        await asyncio.Event().wait()

    async def keep(actions: OperatorActions) -> None:
        await never(actions)

    source = _Variables(order.settings) if "cluster_url" in order.settings else None
    config = source.read() if source is not None else Config(**order.settings)
    reflexes = cnf.read(config.reflex_file) if config.reflex_file is not None else []
    with bound(config) as listeners:
        site = Site(app=_app, follow=never, keep=keep, reflexes=reflexes, settings=source)
        await run(config, logins, listeners, site, ready=ready)


if __name__ == "__main__":
    main()
