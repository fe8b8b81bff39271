"""The origins that pages may connect to."""

from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from django.http import HttpRequest, HttpResponse

from broker_app.web.content_policy import ContentPolicy


@dataclass
class Node:
    """A node whose mirror knows `consoles`; without mirrors it has none."""

    consoles: tuple[str, ...] = ()
    mirror: Any = field(init=False)

    def __post_init__(self) -> None:
        self.mirror = self if self.consoles else None


def connects(node: Node | None) -> str | None:
    """The directive connect-src of a page."""
    request = cast(Any, HttpRequest())
    request.path_info = "/console/"
    request.scope = {"mom.node": node}
    reply = cast(HttpResponse, ContentPolicy(lambda _: HttpResponse())(request))
    parts = dict(part.split(" ", 1) for part in reply["Content-Security-Policy"].split("; "))
    return parts.get("connect-src")


@pytest.mark.parametrize("node", [None, Node()])
def test_without_mirrors_pages_connect_to_their_own_origin_only(node: Node | None) -> None:
    assert connects(node) is None


def test_with_mirrors_pages_may_connect_to_their_origins() -> None:
    node = Node(("http://h1:8000/x/y", "https://[::1]:8443"))
    assert connects(node) == "'self' http://h1:8000 https://[::1]:8443"


@pytest.mark.parametrize(
    "address", ["", "ws://h2:8000", "http://h2; script-src *", "http://h2 *", "http://*"]
)
def test_an_address_that_would_change_the_policy_is_left_out(address: str) -> None:
    assert connects(Node(("http://h1:8000", address))) == "'self' http://h1:8000"
