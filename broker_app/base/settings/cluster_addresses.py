"""Addresses of the brokers of a cluster in settings, and settings of a cluster that contradict each other."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from broker_app.base.settings import discovery_uris
from broker_app.base.settings.roles import CALLBACK, is_loopback

#: of brokers whose address names none
DEFAULT_PORT: Final = 7676
#: characters of a secret, at least
MIN_SECRET: Final = 16
#: what listens at all addresses of a machine, and is the address of none
ALL_ADDRESSES: Final = ("0.0.0.0", "::")

_LAST_PORT: Final = 65535
_ADDRESS: Final = re.compile(
    r"(?P<host>\[[0-9a-f:.]+\]|[\w.-]*)(:(?P<port>\d{1,5}))?", re.ASCII | re.IGNORECASE
)
_HOST: Final = re.compile(r"[\w.-]+|[0-9a-f.]*:[0-9a-f:.]*:[0-9a-f:.]*", re.ASCII | re.IGNORECASE)
_SET_HOST: Final = "set cluster_host of that broker to the name by which the others reach it"
#: settings without which there is no member of an enhanced cluster, and what each is
_NEEDED: Final = {
    "cluster_id": "cluster_id, the name of the cluster, the same at all members (--cluster-id, "
    "MOM_CLUSTER_ID, imq.cluster.clusterid)",
    "journal": "journal, the address of the store that all members share, as "
    "postgresql://USER:PASSWORD@HOST/NAME, redis://HOST or file:/DIRECTORY (--journal, MOM_JOURNAL)",
    "cluster_port": "cluster_port, the port for the other members, 7676 or 0 for a free one (--cluster-port, "
    "MOM_CLUSTER_PORT, imq.cluster.port)",
    "name": "name, which no other member has (--name, MOM_NAME, imq.brokerid)",
}
_POSTGRES: Final = ("postgres", "postgresql")
#: bytes of cluster_id and name together: with the number of a journal they are in the name of its schema
_MOST_IN_SCHEMA: Final = 44
_MAKE_A_SECRET: Final = "make one with `openssl rand -base64 32`, and set the same on each of them"


class BrokerAddress(NamedTuple):
    """Names a broker of a cluster for the others. Without a host it is on this machine."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse(text: str) -> BrokerAddress:
    """The address that a text such as b1, b1:7676, :7676 or [::1]:7676 names. Raises ValueError."""
    found = _ADDRESS.fullmatch(text)
    port = int(found["port"] or DEFAULT_PORT) if found is not None else 0
    if found is None or not text or not 0 < port <= _LAST_PORT:
        raise ValueError(
            f"{text!r} is no address of a broker: write HOST:PORT, HOST for port {DEFAULT_PORT}, or :PORT on "
            "this machine; an IPv6 address has brackets"
        )
    return BrokerAddress(normal(found["host"]), port)


def own(text: str) -> BrokerAddress:
    """The host of `cluster_host`, and its port, 0 if it has none; an IPv6 address without a port needs no
    brackets. Raises ValueError."""
    if not text or _HOST.fullmatch(text):
        return BrokerAddress(normal(text), 0)
    found = _ADDRESS.fullmatch(text)
    if found is None or not found["host"] or int(found["port"] or 0) > _LAST_PORT or found["port"] == "0":
        raise ValueError(f"{text!r} is no HOST or HOST:PORT by which other brokers reach this one")
    return BrokerAddress(normal(found["host"]), int(found["port"] or 0))


def normal(host: str) -> str:
    """A host as it is compared with others."""
    return host.strip("[]").rstrip(".").lower()


def hidden(address: str, own: str) -> str:
    """The reason why the broker at `own`, empty for one that has no address, cannot use the address HOST:PORT
    of another one; empty if it can."""
    host, own_host = (normal(text.rpartition(":")[0]) for text in (address, own))
    if host in ALL_ADDRESSES:
        return f"{address} is every address of a machine: {_SET_HOST}"
    if is_loopback(host) and own_host and not is_loopback(own_host):
        return f"{address} is another machine for each broker: {_SET_HOST}"
    return ""


def reachable(urls: Iterable[str], address: str) -> list[str]:
    """Those of the URLs of the broker at `address` (HOST:PORT) that others can use: with a broker on another
    machine, those of loopback are none."""
    if is_loopback(normal(address.rpartition(":")[0])):
        return list(urls)
    return [url for url in urls if not is_loopback(urlsplit(url).hostname or "")]


def faults(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Invalid settings of a cluster, and of the host that clients are sent, each with the reason."""
    advertised = values.get("advertised_host") or ""
    if normal(advertised) in ALL_ADDRESSES:
        fault = f"{advertised!r} is every address of a machine: write the one by which clients reach it"
        yield "advertised_host", fault
    yield from discovery_uris.faults(values)
    brokers = [("cluster", text) for text in values.get("cluster") or ()]
    brokers += [("network_connector", text) for text in discovery_uris.brokers(values)]
    if (keeper := values.get("cluster_keeper")) is not None:
        brokers.append(("cluster_keeper", keeper))
    yield from _faults_of_addresses(brokers, values.get("cluster_host"))
    yield from _faults_of_enhanced(values)
    if values.get("cluster_port") is not None:
        yield from _faults_of_member(values)
    elif brokers or any(values.get(name) for name in ("network_connector", "discovery_uri")):
        fault = (
            "this broker has no port for the others: set it to the port that they have for this broker "
            f"({DEFAULT_PORT} is usual), or to 0 for a free one"
        )
        yield "cluster_port", fault


def _faults_of_addresses(brokers: list[tuple[str, str]], own_host: str | None) -> Iterator[tuple[str, str]]:
    """Addresses that are invalid, and a mixture of loopback and others."""
    hosts: list[tuple[str, str, str]] = []
    for setting, text in brokers:
        try:
            hosts.append((setting, text, parse(text).host))
        except ValueError as error:
            yield setting, str(error)
    try:
        hosts.append(("cluster_host", own_host or "", own(own_host or "").host))
    except ValueError as error:
        yield "cluster_host", str(error)
    elsewhere = any(host and not is_loopback(host) for _, _, host in hosts)
    for setting, text, host in hosts:
        if host in ALL_ADDRESSES:
            yield setting, f"{text!r} is every address of a machine: write the one by which others reach it"
        elif elsewhere and host and is_loopback(host):
            fault = (
                f"{text!r} is another machine for each broker: write the name by which the others reach it; "
                "loopback is for clusters with all brokers on one machine"
            )
            yield setting, fault


def _faults_of_member(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if values.get("role") == CALLBACK:
        yield "cluster_port", "a callback broker is in no cluster: leave it out"
    secret = values.get("cluster_secret")
    if secret is None:
        yield (
            "cluster_secret",
            f"brokers of a cluster prove to each other that they know it; {_MAKE_A_SECRET}",
        )
    elif len(secret) < MIN_SECRET:
        fault = f"its {len(secret)} characters can be guessed, at least {MIN_SECRET} are needed"
        yield "cluster_secret", f"{fault}; {_MAKE_A_SECRET}"
    if values.get("cluster_transport") == "tls" and values.get("tls_cert") is None:
        yield "cluster_transport", "tls needs a certificate: set tls_cert"


def _faults_of_enhanced(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The settings that a member of an enhanced cluster lacks, and a name for which its store has no room."""
    cluster_id = values.get("cluster_id")
    if cluster_id is None:
        return
    if lacking := lacking_of_member(values):
        yield "cluster_id", lacking
    elif urlsplit(values["journal"]).scheme in _POSTGRES:
        yield from _faults_of_schema(cluster_id, values["name"])


def lacking_of_member(values: Mapping[str, Any]) -> str:
    """A sentence with the settings that a member of an enhanced cluster needs and that are not among these;
    empty if it has all."""
    missing = [about for name, about in _NEEDED.items() if values.get(name) is None]
    return f"a member of an enhanced cluster also needs {'; '.join(missing)}" if missing else ""


def _faults_of_schema(cluster_id: str, name: str) -> Iterator[tuple[str, str]]:
    found = len(f"{cluster_id}{name}".encode())
    if found > _MOST_IN_SCHEMA:
        fault = (
            f"{cluster_id} and the name {name} have {found} bytes together; with a journal in PostgreSQL "
            f"they have at most {_MOST_IN_SCHEMA}: shorten one"
        )
        yield "cluster_id", fault
