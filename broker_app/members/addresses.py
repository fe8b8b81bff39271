"""The addresses by which clients and other brokers reach this broker."""

from __future__ import annotations

import socket
from typing import NamedTuple

from broker_app.config import Config
from broker_app.net.server.listeners import Ports

_ALL_ADDRESSES = ("", "0.0.0.0", "::")


class Addresses(NamedTuple):
    """`id` is HOST:PORT of the web listener, `web` the address of console and REST, `uris` those of STOMP."""

    id: str
    web: str
    uris: tuple[str, ...]


def addresses_of(config: Config, ports: Ports) -> Addresses:
    """The addresses of a broker with these ports, from the setting `advertised_host` or the host name."""
    host = config.advertised_host or (socket.gethostname() if config.host in _ALL_ADDRESSES else config.host)
    host = f"[{host}]" if ":" in host else host
    tls = "s" if config.tls_cert is not None or config.behind_tls else ""
    at = f"{host}:{ports.web}"
    uris = []
    if ports.stomp is not None:
        uris.append(f"stomp://{host}:{ports.stomp}")
    if ports.stomp_tls is not None:
        uris.append(f"stomp+tls://{host}:{ports.stomp_tls}")
    uris.append(f"ws{tls}://{at}{config.base_path}/ws")
    return Addresses(at, f"http{tls}://{at}{config.base_path}", tuple(uris))
