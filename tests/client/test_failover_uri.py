"""Failover URIs: their forms, their options, and what is refused with which words."""

import dataclasses

import pytest

import mom_client
from mom_client.connection.failover_options import FailoverOptions
from mom_client.connection.failover_uri import parse
from mom_client.connection.selection import pace_of

A, B = "stomp://a:1", "ws://b:2/ws"


@pytest.mark.parametrize(
    "url",
    [
        f"failover:({A},{B})",
        f"failover://({A},{B})",
        f"failover:{A},{B}",
        f"failover://{A},{B}",
        f" failover:( {A} , {B} ) ",
        f"FAILOVER:({A},{B},{A})?",
    ],
)
def test_forms(url: str) -> None:
    uri = parse(url)
    assert (uri.addresses, uri.options, uri.static) == ((A, B), FailoverOptions(), False)


def test_a_static_list() -> None:
    uri = parse(f"static:({A},{B})?maxReconnectAttempts=2")
    assert (uri.addresses, uri.static, uri.options.max_reconnect_attempts) == ((A, B), True, 2)
    with pytest.raises(ValueError, match="unknown failover option: updateURIsURL"):
        parse(f"static:({A})?updateURIsURL=/x")


def test_addresses_as_other_products_write_them() -> None:
    uri = parse("failover:(tcp://a:1,tls://b:2,ssl://c:3,stomp+tls://d:4,ws://e/ws,wss://f/ws,tcp://[::1]:5)")
    assert len(uri.addresses) == 7


#: the table of the specification: name, default, another value as written, and read
OPTIONS = [
    ("initialReconnectDelay", 10, "100", 100),
    ("maxReconnectDelay", 30000, "1000", 1000),
    ("useExponentialBackOff", True, "false", False),
    ("reconnectDelayExponent", 2.0, "1.5", 1.5),
    ("maxReconnectAttempts", -1, "3", 3),
    ("startupMaxReconnectAttempts", -1, "0", 0),
    ("randomize", True, "FALSE", False),
    ("backup", False, "true", True),
    ("backupPoolSize", 1, "2", 2),
    ("priorityBackup", False, "true", True),
    ("priorityURIs", (), f"{A},{B}", (A, B)),
    ("timeout", -1, "3000", 3000),
    ("trackMessages", False, "true", True),
    ("maxCacheSize", 131072, "1024", 1024),
    ("trackTransactionProducers", True, "false", False),
    ("updateURIsSupported", True, "false", False),
    ("updateURIsURL", "", "https://x/list%3Fa%3Db%26c%3Dd", "https://x/list?a=b&c=d"),
    ("rebalanceUpdateURIs", True, "false", False),
    ("reconnectSupported", True, "false", False),
    ("warnAfterReconnectAttempts", 10, "0", 0),
]


@pytest.mark.parametrize(("name", "default", "text", "value"), OPTIONS)
def test_options(name: str, default: object, text: str, value: object) -> None:
    (field,) = (f for f in dataclasses.fields(FailoverOptions) if f.metadata["name"] == name)
    assert getattr(parse(f"failover:({A})").options, field.name) == default
    assert getattr(parse(f"failover:({A})?{name}={text}").options, field.name) == value


def test_the_table_is_complete() -> None:
    assert [f.metadata["name"] for f in dataclasses.fields(FailoverOptions)] == [row[0] for row in OPTIONS]


def test_nested_options_win() -> None:
    uri = parse(f"failover:({A}?x=1&y=2,{B})?nested.x=9&nested.z=a%20b&timeout=1")
    assert [uri.with_nested(address) for address in uri.addresses] == [
        f"{A}?y=2&x=9&z=a+b",
        f"{B}?x=9&z=a+b",
    ]
    assert uri.addresses == (f"{A}?x=1&y=2", B)


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        (f"failover:({A})?randomise=true", "unknown failover option: randomise, did you mean randomize"),
        (f"failover:({A})?Backup=true", "did you mean backup"),
        (f"failover:({A})?timeOut=1&xyzzy=2", "options: timeOut, did you mean timeout.?; xyzzy$"),
        (f"failover:({A})?randomize", "randomize' has no value"),
        (f"failover:({A})?timeout=1&timeout=2", "timeout is given twice"),
        (f"failover:({A})?timeout=1&time%6Fut=2", "timeout is given twice"),
        (f"failover:({A})?randomize=1", "randomize is true or false, not '1'"),
        (f"failover:({A})?timeout=soon", "timeout is a number from -1, not 'soon'"),
        (f"failover:({A})?timeout=nan", "timeout is a number"),
        (f"failover:({A})?maxReconnectAttempts=1.5", "maxReconnectAttempts is a whole number from -1"),
        (f"failover:({A})?backupPoolSize=0", "backupPoolSize is a whole number from 1"),
        (f"failover:({A})?priorityBackup=true&priorityURIs=nothing", "must begin with one of"),
        (f"failover:{A}?timeout=1", r"write failover:\(…\)\?timeout=1"),
        (f"failover:{A}?nested.x=1", r"write failover:\(…\)\?nested.x=1"),
        (f"failover:({A}", "parentheses"),
        (f"failover:{A})", "parentheses"),
        (f"failover:({A})timeout=1", "options begin with a question mark"),
        (f"failover:(failover:({A}))", "a list within a list"),
        ("failover:()", "names no address"),
        ("failover:", "names no address"),
        ("failover:(a:61613)", "must begin with"),
        ("failover:(stomp://a:port)", "no valid port"),
        ("failover:(stomp://0.0.0.0:61613)", "0.0.0.0 is where a broker listens"),
        ("failover:(ws://[::]:8000/ws)", ":: is where a broker listens"),
        ("failover:(stomp://*:61613)", "where a broker listens"),
    ],
)
def test_what_is_refused(url: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        mom_client.connect(url)


def test_lists_in_python() -> None:
    with pytest.raises(ValueError, match="is where a broker listens"):
        mom_client.connect([A, "stomp://0.0.0.0:1"])
    with pytest.raises(ValueError, match="such a URI has the whole list"):
        mom_client.connect([A, f"failover:({B})"])
    with pytest.raises(ValueError, match="neither a path nor"):
        mom_client.connect(f"failover:({A})?updateURIsURL=ftp://x/y")


def test_sweeps() -> None:
    """0 allows the first sweep and none after a loss; the start has the same limit unless it has its own."""
    limits = {
        "": (None, None),
        "?maxReconnectAttempts=3": (3, 3),
        "?maxReconnectAttempts=0": (1, 0),
        "?startupMaxReconnectAttempts=2": (2, None),
        "?maxReconnectAttempts=5&startupMaxReconnectAttempts=0": (1, 5),
    }
    for query, expected in limits.items():
        pace = pace_of(parse(f"failover:({A}){query}").options)
        assert (pace.startup_sweeps, pace.sweeps) == expected, query
