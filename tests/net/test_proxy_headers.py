"""The client's address behind a proxy."""

import pytest

from broker_app.base.asgi import Scope
from broker_app.net.http.proxy_headers import apply_proxy_headers


@pytest.mark.parametrize(
    ("headers", "address"),
    [
        ([], "127.0.0.1"),
        ([b"192.0.2.7"], "192.0.2.7"),
        ([b"10.0.0.1, 192.0.2.7"], "192.0.2.7"),
        ([b"10.0.0.1", b"192.0.2.7"], "192.0.2.7"),
        ([b"192.0.2.7,2001:DB8::1"], "2001:db8::1"),
        ([b"192.0.2.7, unknown"], "127.0.0.1"),
        ([b""], "127.0.0.1"),
    ],
)
def test_the_address_that_the_nearest_proxy_has_added_counts(headers: list[bytes], address: str) -> None:
    scope: Scope = {"client": ("127.0.0.1", 50_000), "headers": [(b"host", b"a")]}
    scope["headers"] += [(b"x-forwarded-for", value) for value in headers]
    apply_proxy_headers(scope)
    assert scope["client"][0] == address
