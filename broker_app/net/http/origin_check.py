"""The origin check: accepts browser requests only from our own pages.

Browsers add cookies to requests of any page, so a cookie counts only together with this check. The check also
keeps foreign pages away from a node with anonymous access, even by DNS rebinding: the requested host must be
one of ours. Programs send no Origin and are not affected.
"""

from collections.abc import Collection, Iterable
from ipaddress import ip_address
from urllib.parse import urlsplit


class Origins:
    """The pages that may use this node.

    `hosts` are its own names (without port); ".example.org" is the domain and its subdomains, "*" is all. IP
    addresses need no listing, since they cannot be rebound. `listed` are full origins (https://host:port) of
    other sites.
    """

    def __init__(self, hosts: Iterable[str], listed: Iterable[str] = ()) -> None:
        self._hosts: Collection[str] = frozenset(host.lower() for host in hosts)
        self._listed: Collection[str] = frozenset(origin.lower().rstrip("/") for origin in listed)

    def accepts(self, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """Return True if the headers of an ASGI scope have no Origin, a listed one, or that of our own
        page."""
        origin = host = None
        for name, value in headers:
            if name == b"origin":
                origin = value.decode("latin-1").lower()
            elif name == b"host":
                host = value.decode("latin-1").lower()
        if origin is None or origin in self._listed:
            return True
        # The scheme is not compared: a proxy may terminate TLS. "null" has no host and fails here.
        try:
            return urlsplit(origin).netloc == host and host is not None and self.knows(host)
        except ValueError:
            return False

    def knows(self, host: str) -> bool:
        """Return True if a Host header (with or without port) names this node."""
        name = host.lower()
        if not name.endswith("]"):
            head, colon, port = name.rpartition(":")
            name = head if colon and port.isdigit() else name
        if name in self._hosts or "*" in self._hosts or _is_address(name):
            return True
        return any(known.startswith(".") and ("." + name).endswith(known) for known in self._hosts)


def _is_address(name: str) -> bool:
    try:
        ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True
