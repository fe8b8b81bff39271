"""Options: what they mean, and how wrong ones are refused."""

from __future__ import annotations

import dataclasses
import json
import pickle
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_mom import sink_options
from pyspark_mom.errors import InvalidOption
from pyspark_mom.events import EVENT_NAMES
from pyspark_mom.options import NAMES, Options, parse
from pyspark_mom.patterns import matcher, regex

URL = {"url": "file:///var/lib/mom/journal"}


def test_without_other_options_all_events_that_are_stored_are_read() -> None:
    found = parse(URL)
    assert found == Options(brokers=(("mom", "file:///var/lib/mom/journal"),))
    assert (found.events, found.starting, found.ending) == (EVENT_NAMES, "earliest", "latest")
    assert found.fail_on_data_loss and found.fail_on_unreachable


def test_a_stream_begins_with_what_comes_and_does_not_wait_for_brokers_that_are_away() -> None:
    found = parse(URL, streaming=True)
    assert (found.starting, found.fail_on_unreachable) == ("latest", False)
    assert parse({**URL, "startingOffsets": "earliest"}, streaming=True).starting == "earliest"
    assert parse({**URL, "startingTimestamp": "5"}, streaming=True).starting_us == 5000


def test_options_are_immutable_and_can_be_sent_to_workers() -> None:
    found = parse({**URL, "destinations": "a,b"})
    assert pickle.loads(pickle.dumps(found)) == found
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.content = "messages"  # type: ignore[misc]


def test_names_of_options_have_no_case() -> None:
    assert parse({**URL, "MINPARTITIONS": "7", "failondataloss": "FALSE"}) == parse(
        {**URL, "minPartitions": "7", "failOnDataLoss": "false"}
    )


def test_messages_are_the_events_with_bodies() -> None:
    assert parse({**URL, "content": "messages"}).events == ("ENQUEUE", "RECEIVE")
    assert parse({**URL, "content": "messages", "events": "ack"}).events == ("ACK",)


def test_several_brokers_have_names_addresses_and_positions() -> None:
    brokers = {"B": "https://b:8000", "A": "file:///a"}
    found = parse(
        {"brokers": json.dumps(brokers), "startingOffsets": '{"A": 5, "B": {"epoch": 1, "pos": 7, "tag": 3}}'}
    )
    assert found.urls == brokers
    assert found.starting == (("A", 5), ("B", 7))


@pytest.mark.parametrize(
    ("text", "time_us"),
    [
        ("2026-11-21T03:00:00Z", 1_795_230_000_000_000),
        ("2026-11-21T04:00:00.5+01:00", 1_795_230_000_500_000),
        ("1795230000123", 1_795_230_000_123_000),
    ],
)
def test_times_are_rfc_3339_or_milliseconds(text: str, time_us: int) -> None:
    assert parse({**URL, "startingTimestamp": text}).starting_us == time_us


@pytest.mark.parametrize(
    ("given", "refusal"),
    [
        ({}, "url: the address of the broker is needed"),
        ({**URL, "brokers": '{"A": "http://a"}'}, "url: the address"),
        ({**URL, "destintions": "a"}, "there is no option 'destintions'; did you mean destinations"),
        ({**URL, "zzz": "a"}, "there is no option 'zzz'; the options are url, brokers"),
        ({"url": "ftp://a/b"}, "url: 'ftp' is no scheme"),
        ({"url": "/var/lib/mom"}, "url: '/var/lib/mom' is no scheme"),
        ({"url": "file://host/var"}, "url: a directory is written file:///absolute/path"),
        ({"url": "http://"}, "url: the address has no host"),
        ({"url": "http://a:99999"}, "url: not an address"),
        ({"brokers": "[]"}, "brokers: a JSON object"),
        ({"brokers": '{"A": "x"}'}, "brokers: A: 'x' is no scheme"),
        ({"brokers": '{"A": "http://a"}', "broker": "B"}, "broker: the names are in brokers"),
        ({**URL, "events": "ACK,SENT"}, "events: 'SENT' is not one of ENQUEUE"),
        ({**URL, "content": "all"}, "content: 'all' is not one of events, messages"),
        ({**URL, "includeHeaders": "yes"}, "includeHeaders: 'yes' is neither true nor false"),
        ({**URL, "minPartitions": "0"}, "minPartitions: '0' is not a whole number from 1"),
        ({**URL, "destinations": "a,,b"}, "destinations: an element of the list is empty"),
        ({**URL, "destinations": "a" * 2000}, "destinations: a pattern has 2000 characters"),
        ({**URL, "destinations": "a" * 2_000_000}, "destinations: 2000000 characters; at most"),
        ({**URL, "startingOffsets": "now"}, "startingOffsets: not valid JSON"),
        ({**URL, "startingOffsets": '{"mom": -1}'}, "startingOffsets: the position of mom"),
        ({**URL, "startingOffsets": '{"mom": true}'}, "startingOffsets: the position of mom"),
        ({**URL, "startingOffsets": '{"B": 1}'}, "startingOffsets: names B, but the brokers are mom"),
        ({**URL, "startingTimestamp": "yesterday"}, "startingTimestamp: 'yesterday' is neither"),
        (
            {**URL, "startingTimestamp": "1", "startingOffsets": "latest"},
            "startingOffsets: startingTimestamp is given, too",
        ),
        (
            {**URL, "maxRowsPerTrigger": "1", "maxBytesPerTrigger": "1"},
            "maxRowsPerTrigger: maxBytesPerTrigger is given, too",
        ),
        ({**URL, "cursor": "archive"}, "cursor: file:///var/lib/mom/journal cannot take it"),
    ],
)
def test_a_wrong_option_is_refused_by_its_name(given: dict[str, str], refusal: str) -> None:
    with pytest.raises(InvalidOption) as raised:
        parse(given)
    assert str(raised.value).startswith(f"[INVALID_OPTION] {refusal}")


@pytest.mark.parametrize("option", ["endingOffsets", "endingTimestamp"])
def test_a_stream_has_no_end(option: str) -> None:
    with pytest.raises(InvalidOption, match=f"{option}: a stream has no end"):
        parse({**URL, option: "1" if "Time" in option else "latest"}, streaming=True)


@pytest.mark.parametrize(
    "given",
    [
        {"url": "postgresql://mom:hunter2@db/mom"},
        {"url": "postgresql://db/mom?password=hunter2"},
        {"url": "https://admin:hunter2@broker"},
        {"brokers": '{"A": "redis://:hunter2@cache"}'},
        {**URL, "credential": "mom_hunter2"},
        {**URL, "credential": "admin:hunter2"},
    ],
)
def test_a_secret_in_an_option_is_refused_and_not_repeated(given: dict[str, str]) -> None:
    with pytest.raises(InvalidOption) as raised:
        parse(given)
    assert "USER:PASSWORD" in str(raised.value)
    assert "hunter2" not in str(raised.value)


def test_every_option_is_checked_and_short() -> None:
    for name in NAMES:
        with pytest.raises(InvalidOption):
            parse({**URL, name: "\0" * 1_000_001})


@pytest.mark.parametrize(
    ("patterns", "fitting", "others"),
    [
        ("orders", {"/queue/orders", "/topic/orders"}, {"/queue/orders.eu", "/queue/xorders"}),
        ("/queue/orders", {"/queue/orders"}, {"/topic/orders"}),
        ("orders.*", {"/queue/orders.eu"}, {"/queue/orders", "/queue/orders.eu.de"}),
        ("orders.>", {"/queue/orders.eu", "/queue/orders.eu.de"}, {"/queue/orders"}),
        ("ord*.eu", {"/queue/orders.eu", "/queue/ord.eu"}, {"/queue/orders.x.eu"}),
        ("/queue/>", {"/queue/a", "/queue/a.b"}, {"/topic/a"}),
        (">", {"/queue/a", "/topic/a.b"}, set[str]()),
        ("a,b", {"/queue/a", "/queue/b"}, {"/queue/c"}),
        ('["a.(x)", "b,c"]', {"/queue/a.(x)", "/queue/b,c"}, {"/queue/a.x", "/queue/b"}),
    ],
)
def test_patterns_of_destinations(patterns: str, fitting: set[str], others: set[str]) -> None:
    fits = matcher(parse({**URL, "destinations": patterns}).destinations)
    assert {address for address in fitting | others if fits(address)} == fitting


def test_a_pattern_of_many_stars_takes_no_longer_than_one() -> None:
    fits = matcher(["*a" * 500 + "b"])
    assert not fits("/queue/" + "a" * 255)


_NAMES = st.text("a.*>#-", min_size=1, max_size=6)


@given(_NAMES, st.sampled_from(["", "/queue/", "/*/", "/t*/"]), _NAMES, st.sampled_from(["queue", "topic"]))
def test_the_regular_expression_of_a_pattern_matches_what_the_pattern_does(
    pattern: str, kind: str, name: str, of: str
) -> None:
    address = f"/{of}/{name}"
    assert bool(re.search(regex(kind + pattern), address)) == matcher([kind + pattern])(address)


LISTED = "https://a:8000,https://b:8000/mom"


@pytest.mark.parametrize(
    "url",
    [
        LISTED,
        LISTED.replace(",", " , "),
        f"failover:({LISTED})",
        f"failover:{LISTED}",
        f"failover://({LISTED})",
    ],
)
def test_a_broker_with_mirrors_has_several_addresses(url: str) -> None:
    assert parse({"url": url, "cursor": "a"}).urls == {"mom": LISTED}
    assert parse({"brokers": json.dumps({"A": url})}).urls == {"A": LISTED}
    assert sink_options.parse({"url": url}).url == LISTED


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"url": "https://a:8000,file:///x"}, "url: 'file' is no scheme of an address here"),
        ({"url": "https://a:8000,"}, "url: '' is no scheme of an address here"),
        ({"url": "failover:(https://a)?maxReconnectDelay=5"}, "are not for Spark; leave them out"),
        (
            {"url": "https://a", "keyFile": "/k"},
            "keyFile: is the key of a certificate; name that with certFile",
        ),
        ({"url": "https://a", "certFile": "/c", "keyCredential": "secret"}, "never the secret itself"),
    ],
)
def test_wrong_addresses_and_keys_are_refused(options: dict[str, str], text: str) -> None:
    for parser in (parse, sink_options.parse):
        with pytest.raises(InvalidOption, match=re.escape(text)) as refused:
            parser(options)
        assert "secret'" not in str(refused.value)
