"""Behind a proxy: where the client is, by the word of the proxy.

Only the last address of the last `X-Forwarded-For` counts: that one the proxy next to us has added. What
stands before it, clients may have made up.
"""

from __future__ import annotations

from ipaddress import ip_address

from broker_app.net.http.asgi import Scope


def believe_proxy(scope: Scope) -> None:
    """Puts the client whom the proxy names in the place of the proxy, if it names one."""
    for name, value in reversed(scope.get("headers", [])):
        if name == b"x-forwarded-for":
            last = value.decode("latin-1").rpartition(",")[2].strip()
            try:
                scope["client"] = (str(ip_address(last)), 0)
            except ValueError:
                return
            return
