"""This broker as one of its cluster, as the settings have it."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable

from broker_app.config import MAX_HEADER_BYTES, Config
from broker_app.engine import Engine
from broker_app.features.cluster.cluster import Cluster, ClusterSettings
from broker_app.features.cluster.configuration import settings as cluster_settings
from broker_app.features.cluster.links import frames as f
from broker_app.features.cluster.links.frames import Identity
from broker_app.features.cluster.links.link import HANDSHAKE_S, Link
from broker_app.features.cluster.record.destination_applier import Configuration, NoConfiguration
from broker_app.features.cluster.record.replicated_record import KeeperSettings, ReplicatedRecord
from broker_app.members.addresses import addresses_of
from broker_app.net.server.listeners import Ports
from broker_app.net.stomp.session import VERSION
from broker_app.net.tls.certificates import Certificates
from broker_app.net.tls.listener import TlsListener
from broker_app.telemetry.event_log import EventLog

_TLS = "tls"
#: the answer to brokers without TLS
_NO_TLS = bytes(
    f.encode(f.Refuse("tls-required", "this port speaks TLS: set cluster_transport to tls at each broker"))
)


def make_cluster(
    config: Config,
    engine: Engine,
    ports: Ports,
    certificates: Certificates | None,
    clients: Callable[[], int],
) -> Cluster:
    """The cluster of a broker with these ports; `clients` returns how many clients it has."""
    assert config.cluster_secret is not None and ports.cluster is not None
    addresses = addresses_of(config, ports)
    encrypted = config.cluster_transport == _TLS
    settings = ClusterSettings(
        name=config.name,
        version=VERSION,
        address=cluster_settings.own_address(config, ports.cluster),
        brokers=cluster_settings.others(config, ports.cluster),
        secret=config.cluster_secret,
        most_bytes=config.max_body_bytes + MAX_HEADER_BYTES,
        must_be_equal=cluster_settings.must_be_equal(config),
        uris=addresses.uris,
        web=addresses.web,
        tls=_ClientContexts(config, certificates) if encrypted and certificates is not None else None,
        listen_tls=_listen_tls(certificates) if encrypted and certificates is not None else None,
        keeper=cluster_settings.keeper_address(config),
        multicast=cluster_settings.multicast(config),
    )
    return Cluster(engine, settings, clients)


def make_record(
    config: Config,
    engine: Engine,
    cluster: Cluster,
    port: int,
    configuration: Configuration | None,
    events: EventLog,
) -> ReplicatedRecord:
    """The change record of a broker of this cluster, which listens for the others at `port`."""
    address = cluster_settings.keeper_address(config)
    is_here = bool(address) and address not in cluster_settings.others(config, port)
    keeper = KeeperSettings(address, is_here, config.cluster_dynamic_keeper)

    cluster.record = ReplicatedRecord(
        *(config.name, config.data, keeper, engine, configuration or NoConfiguration()),
        *(cluster.send_record, events.report),
    )
    return cluster.record


def client_addresses(cluster: Cluster) -> list[str]:
    """The addresses of other brokers that take clients."""
    return [uri for broker in _taking_clients(cluster) for uri in broker.client_uris()]


def client_web(cluster: Cluster) -> str:
    """The address for HTTP of the first of these brokers; empty if there is none."""
    return next((web for broker in _taking_clients(cluster) if (web := broker.client_web())), "")


def web_of(cluster: Cluster, name: str) -> str:
    """The address for HTTP of the broker of this name; empty if it is not known."""
    known = (member.identity for member in cluster.members.all() if member.identity is not None)
    return next((broker.client_web() for broker in known if broker.name == name), "")


def consoles(cluster: Cluster) -> list[str]:
    """The addresses of the consoles of the other brokers, running or not, in a lasting order."""
    known = (one.identity.client_web() for one in cluster.members.all() if one.identity is not None)
    return sorted({web for web in known if web})


def _taking_clients(cluster: Cluster) -> list[Identity]:
    return [
        member.identity
        for member in cluster.members.all()
        if member.link is not None and not member.link.quiesced and member.identity is not None
    ]


class _ClientContexts:
    """Makes the TLS context of a connection to another broker: the same until there are new certificates."""

    def __init__(self, config: Config, certificates: Certificates) -> None:
        self._config = config
        self._certificates = certificates
        self._generation = certificates.generation
        self._context = _client_context(config)

    def __call__(self) -> ssl.SSLContext:
        if self._generation != self._certificates.generation:
            self._context = _client_context(self._config)
            self._generation = self._certificates.generation
        return self._context


def _listen_tls(certificates: Certificates) -> Callable[[socket.socket, Callable[[], Link]], TlsListener]:
    def listen(listener: socket.socket, make_link: Callable[[], Link]) -> TlsListener:
        return TlsListener(
            *(listener, certificates, make_link),
            plain_answer=_NO_TLS,
            handshake_timeout_s=HANDSHAKE_S,
        )

    return listen


def _client_context(config: Config) -> ssl.SSLContext:
    """The TLS context for connections to the others: it accepts certificates of the same authorities, and
    shows the certificate of this broker."""
    context = ssl.create_default_context(cafile=str(config.tls_ca) if config.tls_ca is not None else None)
    assert config.tls_cert is not None  # `cluster_addresses.faults`
    password = config.tls_key_password
    context.load_cert_chain(config.tls_cert, config.tls_key, password.encode() if password else None)
    return context
