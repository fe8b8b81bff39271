"""The sockets at which a node listens: bound before anything is written, so a port in use costs nothing."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from broker_app.config import Config
from broker_app.features.cluster.configuration.settings import listen_host

_BACKLOG = 2048
_LISTENS = "0A"


class PortTaken(Exception):
    """An address at which the node cannot listen; the text names it, its option and how to fix it."""


class Listeners(NamedTuple):
    """Bound sockets; None for what is not served."""

    web: socket.socket
    stomp: socket.socket | None
    stomp_tls: socket.socket | None
    cluster: socket.socket | None = None


class Ports(NamedTuple):
    """The ports of a node; None for a listener that it does not have."""

    web: int
    stomp: int | None
    stomp_tls: int | None
    cluster: int | None = None


def ports_of(listeners: Listeners) -> Ports:
    """The ports at which these sockets listen."""
    return Ports(
        listeners.web.getsockname()[1],
        *(
            listener.getsockname()[1] if listener is not None else None
            for listener in (listeners.stomp, listeners.stomp_tls, listeners.cluster)
        ),
    )


def drawn_ports(config: Config, listeners: Listeners) -> list[str]:
    """The options by which another start has the ports that were drawn for these sockets."""
    return [
        word
        for option, port, listener in (
            ("--port", config.port, listeners.web),
            ("--stomp-port", config.stomp_port, listeners.stomp),
            ("--stomp-tls-port", config.stomp_tls_port, listeners.stomp_tls),
            ("--cluster-port", config.cluster_port, listeners.cluster),
        )
        if port == 0 and listener is not None
        for word in (option, str(listener.getsockname()[1]))
    ]


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. Raises OSError when the address cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=_BACKLOG)


@contextlib.contextmanager
def bound(config: Config) -> Iterator[Listeners]:
    """All sockets of a node, closed at the end. Raises PortTaken."""
    with contextlib.ExitStack() as opened:

        def one(port: int, option: str, host: str = config.host) -> socket.socket:
            return opened.enter_context(_bind(host, port, option))

        with_tls = config.tls_cert is not None and config.stomp_tls_port >= 0
        yield Listeners(
            one(config.port, "--port"),
            one(config.stomp_port, "--stomp-port") if config.stomp_port >= 0 else None,
            one(config.stomp_tls_port, "--stomp-tls-port") if with_tls else None,
            one(config.cluster_port, "--cluster-port", listen_host(config))
            if config.cluster_port is not None
            else None,
        )


def _bind(host: str, port: int, option: str) -> socket.socket:
    try:
        return listen(host, port)
    except OSError as error:
        raise PortTaken(_why(error, host, port, option)) from error


def _why(error: OSError, host: str, port: int, option: str) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} ({option}) is in use{_by_whom(port)}; end that, or choose another port"
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"port {port} ({option}) is only for root; choose one from 1024 on"
    if host.startswith("failover:"):
        return f"a broker cannot listen at {host!r} (--host): failover is for clients; name one address"
    if error.errno in (errno.EADDRNOTAVAIL, socket.EAI_NONAME):
        return f"this machine has no address {host} (--host)"
    return f"port {port} ({option}) at {host} (--host) cannot be had: {os.strerror(error.errno or 0)}"


def _by_whom(port: int) -> str:
    """The process that listens there, as far as this user may see it."""
    inodes = {f"socket:[{inode}]" for inode in _inodes(port)}
    for process in Path("/proc").glob("[0-9]*"):
        # Processes end meanwhile, and those of others show nothing.
        with contextlib.suppress(OSError):
            if any(os.readlink(file) in inodes for file in (process / "fd").iterdir()):
                return f" by process {process.name} ({(process / 'comm').read_text().strip()})"
    return " by another program"


def _inodes(port: int) -> Iterator[str]:
    """Of the sockets that listen at a port, from the tables of Linux (proc_pid_net(5))."""
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/net/{table}").read_text(encoding="ascii").splitlines()[1:]:
                _, local, _, state, *others = line.split()
                if state == _LISTENS and int(local.rpartition(":")[2], 16) == port:
                    yield others[5]
