"""Pages that may use the node from a browser."""

import pytest

from broker_app.net.http.origin_check import Origins

origins = Origins(["Broker.example", ".inside.example"], ["https://ops.example/"])


def accepted(origin: str | None, host: str | None = "broker.example:8000") -> bool:
    headers = [(b"host", host.encode())] if host is not None else []
    return origins.accepts(
        [*headers, (b"origin", origin.encode("latin-1"))] if origin is not None else headers
    )


def test_programs_without_an_origin_are_accepted() -> None:
    assert accepted(None)
    assert accepted(None, host=None)


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("http://broker.example:8000", "broker.example:8000"),
        ("https://broker.example", "broker.example"),
        ("HTTP://Broker.Example:8000", "BROKER.example:8000"),
        ("http://[::1]:8000", "[::1]:8000"),
        ("http://192.0.2.7:8000", "192.0.2.7:8000"),
        ("http://a.inside.example", "a.inside.example"),
        ("http://inside.example", "inside.example"),
        ("https://ops.example", "broker.example:8000"),
    ],
)
def test_our_own_pages_and_listed_origins_are_accepted(origin: str, host: str) -> None:
    assert accepted(origin, host)


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("http://evil.example", "broker.example:8000"),
        ("http://192.0.2.7:8000", "192.0.2.8:8000"),
        ("http://broker.example:9000", "broker.example:8000"),
        ("http://evil.example:8000", "evil.example:8000"),  # a name of theirs that points at our address
        ("http://notinside.example", "notinside.example"),
        ("null", "broker.example:8000"),
        ("", "broker.example:8000"),
        ("http://[::1", "broker.example:8000"),
        ("http://broker.example:8000.evil.example", "broker.example:8000"),
        ("http://evil@broker.example:8000", "broker.example:8000"),
        ("http://broker.example:8000", None),
    ],
)
def test_other_pages_are_refused(origin: str, host: str | None) -> None:
    assert not accepted(origin, host)


def test_a_star_accepts_every_host() -> None:
    assert Origins(["*"]).knows("anything:1")
    assert not origins.knows("")
