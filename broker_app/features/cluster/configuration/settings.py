"""Addresses of the brokers of a cluster by the settings of one of them, and settings that must be equal."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping
from typing import Final

from broker_app import config
from broker_app.base.refused import Refused
from broker_app.base.settings import discovery_uris
from broker_app.base.settings.cluster_addresses import ALL_ADDRESSES, BrokerAddress, normal, own, parse
from broker_app.base.settings.discovery_uris import MulticastGroup, MulticastSettings
from broker_app.base.settings.roles import is_loopback
from broker_app.config import CentralValue, Config
from broker_app.features.cluster.configuration import expectations
from broker_app.features.cluster.configuration.expectations import Expectation
from broker_app.features.cluster.configuration.imq_names import NAMES

_LOOPBACK: Final = "127.0.0.1"
_OF_ENHANCED: Final = tuple(
    name
    for name, row in NAMES.items()
    if row.must_be_equal and name.startswith(("imq.cluster.heartbeat.", "imq.cluster.monitor."))
)


def load(environment: Mapping[str, str] | None = None) -> Config:
    """The settings of variables and files, with those of the central file. Raises ConfigError."""
    expected: list[Expectation] = []

    def central_values(url: str) -> Iterable[CentralValue]:
        # Here: most brokers have no such file, and no command line waits for its reader.
        from broker_app.features.cluster.configuration import central_file

        content = central_file.read(url)
        expected.extend(content.expected)
        return content.values

    found = config.load(environment, central_values)
    expectations.check(found, expected)
    return found


def own_address(config: Config, port: int) -> str:
    """The address by which other brokers reach this one, which listens at `port`."""
    return str(BrokerAddress(_own_host(config), _own(config).port or port))


def listen_host(config: Config) -> str:
    """The address at which this broker listens for others: that of `host`, unless they could not reach it."""
    if _is_one_machine(config):
        return _own_host(config)
    return "0.0.0.0" if is_loopback(config.host) else config.host


def others(config: Config, port: int) -> tuple[str, ...]:
    """The addresses of the other brokers, each once; this one listens at `port`."""
    ports = {port, _own(config).port or port}
    hosts = (_own_host(config), normal(socket.gethostname()))
    here = {BrokerAddress(host, one) for host in hosts for one in ports}
    brokers = [_resolved(config, text) for text in _named(config)]
    return tuple(dict.fromkeys(str(broker) for broker in brokers if broker not in here))


def multicast(config: Config) -> MulticastSettings | None:
    """The groups in which brokers of the cluster find each other; None for none."""
    announces = (
        _by_own_interface(config, discovery_uris.multicast_group(config.discovery_uri))
        if config.discovery_uri
        else None
    )
    listens = tuple(
        _by_own_interface(config, group)
        for group in discovery_uris.network_connector(config.network_connector).groups
    )
    return MulticastSettings(announces, listens) if announces is not None or listens else None


def keeper_address(config: Config) -> str:
    """The address of the broker that keeps the change record; empty without one."""
    return str(_resolved(config, config.cluster_keeper)) if config.cluster_keeper is not None else ""


def must_be_equal(config: Config) -> dict[str, str]:
    """The settings in which all brokers of a cluster agree, by the names that users of GlassFish MQ know."""
    values = {
        name: _text(getattr(config, row.setting)) for name, row in sorted(NAMES.items()) if row.must_be_equal
    }
    values["imq.cluster.masterbroker"] = keeper_address(config)
    if config.cluster_id is None:  # nothing is watched
        for name in _OF_ENHANCED:
            del values[name]
    else:
        values["lease_s"] = _text(config.lease_s)
    if config.cluster_dynamic_keeper:  # it may have moved since one of them was started
        del values["imq.cluster.masterbroker"]
    return values


def difference(own: Mapping[str, str], other: Mapping[str, str]) -> tuple[str, str, str] | None:
    """The first property in which two brokers differ, with the value of each; None if there is none."""
    for name in sorted({*own, *other}):
        if own.get(name) != other.get(name):
            return name, own.get(name, ""), other.get(name, "")
    return None


def mismatch(own_name: str, other_name: str, found: tuple[str, str, str]) -> Refused:
    """The refusal of a broker because of a `difference`."""
    name, own, other = found
    setting = f" ({NAMES[name].setting})" if name in NAMES else ""
    return Refused(
        "cluster-mismatch",
        f"{name}{setting} is {_shown(own)} at {own_name} and {_shown(other)} at {other_name}, and must "
        "be equal at all brokers of a cluster; set it in the central file of cluster_url, or at each broker",
        property=name,
        values={own_name: own, other_name: other},
    )


def _named(config: Config) -> list[str]:
    """The list of brokers, those of the network connector, and the keeper, which may be missing in it. The
    list is ignored in an enhanced cluster, as by GlassFish MQ: members find each other in their store."""
    connected = discovery_uris.network_connector(config.network_connector).brokers
    return [
        *(config.cluster if config.cluster_id is None else ()),
        *connected,
        *([config.cluster_keeper] if config.cluster_keeper is not None else []),
    ]


def _resolved(config: Config, text: str) -> BrokerAddress:
    """An address with a host; all names of loopback are one."""
    host, port = parse(text)
    return BrokerAddress(_own_host(config) if not host or is_loopback(host) else host, port)


def _own_host(config: Config) -> str:
    if _is_one_machine(config):
        return next((host for host in _named_hosts(config) if ":" in host), _LOOPBACK)
    if config.cluster_host is not None:
        return _own(config).host
    if config.advertised_host is not None:
        return normal(config.advertised_host)
    is_address = config.host not in ("", *ALL_ADDRESSES) and not is_loopback(config.host)
    return normal(config.host if is_address else socket.gethostname())


def _by_own_interface(config: Config, group: MulticastGroup) -> MulticastGroup:
    """A group by the network interface that has the address of this broker, if that is known."""
    host = _own_host(config)
    is_known = not group.interface and discovery_uris.is_ipv4(host)
    return group._replace(interface=host) if is_known else group


def _is_one_machine(config: Config) -> bool:
    """Return whether all brokers are on this machine: `cluster_addresses.faults` refuses a mixture."""
    named = _named_hosts(config)
    return is_loopback(named[0] if named else config.host)


def _named_hosts(config: Config) -> list[str]:
    """The hosts that the settings of the cluster name."""
    hosts = [parse(text).host for text in _named(config)]
    return [host for host in (_own(config).host, *hosts) if host]


def _own(config: Config) -> BrokerAddress:
    """The setting `cluster_host`."""
    return own(config.cluster_host or "")


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value or "")


def _shown(value: str) -> str:
    return repr(value) if value else "not set"
