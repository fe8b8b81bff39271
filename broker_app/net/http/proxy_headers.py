"""The address of a client behind a proxy, from the headers of the proxy.

Only the last address of the last `X-Forwarded-For` is used: the nearest proxy has added it. Clients may have
forged the others.
"""

from __future__ import annotations

from ipaddress import ip_address

from broker_app.base.asgi import Scope


def apply_proxy_headers(scope: Scope) -> None:
    """Replace the address of the proxy by that of the client, if the proxy has sent it."""
    for name, value in reversed(scope.get("headers", [])):
        if name == b"x-forwarded-for":
            last = value.decode("latin-1").rpartition(",")[2].strip()
            try:
                scope["client"] = (str(ip_address(last)), 0)
            except ValueError:
                return
            return
