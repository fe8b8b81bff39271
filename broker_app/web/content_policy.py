"""The Content-Security-Policy of pages: with mirrors, a page may ask their brokers which of them serves."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from csp.constants import SELF
from csp.middleware import CSPMiddleware, PolicyParts
from django.http import HttpRequest
from django.http.response import HttpResponseBase

#: an address whose origin has no character that means something else in a policy
_CONSOLE = re.compile(r"https?://[\w.:\[\]-]+(/[^\s]*)?", re.ASCII)


class ContentPolicy(CSPMiddleware):
    """Adds the origins of the brokers that share the journal to what scripts may connect to."""

    def get_policy_parts(
        self, request: HttpRequest, response: HttpResponseBase, report_only: bool = False
    ) -> PolicyParts:
        """The policy of the settings, with changes of the view and with these origins."""
        parts = super().get_policy_parts(request, response, report_only)
        origins = [_origin(console) for console in consoles_of(request)]
        if origins and not report_only:
            parts.update = {**(parts.update or {}), "connect-src": [SELF, *origins]}
        return parts


def consoles_of(request: HttpRequest) -> list[str]:
    """The addresses of the consoles of all brokers that share the journal; empty without mirrors."""
    node = getattr(request, "scope", {}).get("mom.node")
    if node is None or node.mirror is None:
        return []
    return [console for console in node.mirror.consoles if _CONSOLE.fullmatch(console)]


def cluster_consoles_of(request: HttpRequest) -> list[str]:
    """The addresses of the consoles of the other brokers of the cluster; empty for a broker in none."""
    node = getattr(request, "scope", {}).get("mom.node")
    if node is None:
        return []
    return [console for console in node.cluster_consoles() if _CONSOLE.fullmatch(console)]


def _origin(console: str) -> str:
    parts = urlsplit(console)
    return f"{parts.scheme}://{parts.netloc}"
