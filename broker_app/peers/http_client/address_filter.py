"""The addresses that the client may connect to: public ones, and those that the administrator lists.

Without it, a user who may create a callback could have the broker send requests into its own network.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

Address = IPv4Address | IPv6Address

#: networks that allow all addresses, for what only administrators can name
EVERY_ADDRESS: Final = ("0.0.0.0/0", "::/0")

#: special-purpose networks of IPv4 (RFC 6890 and the registry of IANA)
_NOT_PUBLIC_4: Final = tuple(
    IPv4Network(network)
    for network in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
        "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15",
        "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
    )
)  # fmt: skip
#: addresses from public ranges that a cloud uses within itself; others than these are in the networks above
_OF_CLOUDS: Final = tuple(
    IPv4Network(network)
    for network in (
        "168.63.129.16/32",  # Azure: the agent of the host (WireServer), which has settings of the machine
        "161.26.0.0/16",  # IBM: the service network (names, time, packages, licences)
        "166.8.0.0/14",  # IBM: private endpoints of its services
    )
)
#: the addresses of IPv6 that are given to hosts of the Internet, and what is special among them
_PUBLIC_6: Final = IPv6Network("2000::/3")
_NOT_PUBLIC_6: Final = tuple(
    IPv6Network(network) for network in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")
)
#: IPv6 addresses with an IPv4 address in their last 32 bits
_TRANSLATED: Final = IPv6Network("64:ff9b::/96")


class AddressFilter:
    """`allowed` are networks (10.0.0.0/8), addresses and host names that may be used although they are not
    public. Raises ValueError for one that is none of these."""

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        self._networks: list[IPv4Network | IPv6Network] = []
        self._hosts: set[str] = set()
        for entry in allowed:
            try:
                self._networks.append(ip_network(entry, strict=False))
            except ValueError:
                if "/" in entry or not entry.strip("."):
                    raise ValueError(f"{entry!r} is neither a network nor a host name") from None
                self._hosts.add(_normal(entry))

    def refusal(self, host: str, address: str) -> str:
        """The reason why the host of a URL must not be reached at an address; empty if it may."""
        if _normal(host) in self._hosts:
            return ""
        try:
            found = _unmapped(ip_address(address.partition("%")[0]))
        except ValueError:
            return f"the address {address} is not written in the usual form"
        if _is_public(found) or any(found in network for network in self._networks):
            return ""
        at = "" if host.strip("[]") == address else f" of {host}"
        return (
            f"the address {address}{at} is not public; if it may be called, list it in the setting "
            "webhook_allow (MOM_WEBHOOK_ALLOW)"
        )


def _normal(host: str) -> str:
    return host.lower().rstrip(".")


def _unmapped(address: Address) -> Address:
    """The IPv4 address in an address of IPv6, if there is one."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in _TRANSLATED:
            return IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def _is_public(address: Address) -> bool:
    if isinstance(address, IPv4Address):
        return not any(address in network for network in (*_NOT_PUBLIC_4, *_OF_CLOUDS))
    return address in _PUBLIC_6 and not any(address in network for network in _NOT_PUBLIC_6)
