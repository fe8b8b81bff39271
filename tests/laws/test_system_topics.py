"""Each topic of the broker is declared once, and its readers, documents and publisher follow from that."""

from __future__ import annotations

import re

import pytest

from broker_app.base import system_topics
from broker_app.base.system_topics import ADMINISTRATORS, TOPICS
from broker_app.core.destination import TOPIC, Destination
from broker_app.net import asyncapi
from broker_app.net.policy.system_rights import _KINDS
from broker_app.net.policy.system_topics import OPEN_TOPICS, is_open
from broker_app.rules.event import RECEIVE
from tests.support import checkout
from tests.support.checkout import ROOT


def test_a_topic_is_declared_once() -> None:
    addresses = [topic.address for topic in TOPICS]
    assert len(set(addresses)) == len(addresses)


def test_no_other_module_writes_the_name_of_a_topic() -> None:
    text = re.compile(r"""["'](?:/topic/)?\$mom\.[a-z]""")
    found = {
        name
        for name in checkout.files("broker_app/*.py")
        if name != "broker_app/base/system_topics.py"
        and text.search((ROOT / name).read_text(encoding="utf-8"))
    }
    assert found == set()


def test_each_declared_topic_is_published_somewhere() -> None:
    text = "\n".join(
        (ROOT / name).read_text(encoding="utf-8")
        for name in checkout.files("broker_app/*.py")
        if name not in ("broker_app/base/system_topics.py", "broker_app/net/asyncapi/system_topics.py")
    )
    names = {topic.name for topic in TOPICS}
    constants = {
        key for key, value in vars(system_topics).items() if isinstance(value, str) and value in names
    }
    assert len(constants) == len(TOPICS)
    assert {name for name in constants if not re.search(rf"\b{name}\b", text)} == set()


def test_readers_are_decided_for_each_topic() -> None:
    assert set(OPEN_TOPICS.values()) == _KINDS.keys()
    for topic in TOPICS:
        name = f"{topic.name}.x" if topic.rest else topic.name
        assert is_open(RECEIVE, Destination(TOPIC, name)) == (topic.readers is not ADMINISTRATORS), name


@pytest.mark.parametrize(
    ("name", "readers"),
    [
        ("$mom.node", "all"),
        ("$mom.failover", "all"),
        ("$mom.stats", "destinations"),
        ("$mom.destinations", "destinations"),
        ("$mom.stats.>", "destination"),
        ("$mom.dest.*", "destination"),
        ("$mom.consumer.>", "destination"),
        ("$mom.dead.>", "destination"),
        ("$mom.conn.*", "connection"),
        ("$mom.callback.>", "callback"),
        ("$mom.job.>", "job"),
    ],
)
def test_a_filter_of_topics_has_the_readers_that_were_promised(name: str, readers: str) -> None:
    assert OPEN_TOPICS[name] == readers


def test_asyncapi_has_a_channel_for_each_topic_and_a_message_for_each_type() -> None:
    document = asyncapi.document()
    addresses = {channel["address"] for channel in document["channels"].values()}
    expected = {f"/topic/{topic.name}" + (f".{{{topic.rest}}}" if topic.rest else "") for topic in TOPICS}
    assert expected <= addresses
    types = {
        message["payload"]["properties"]["type"]["const"]
        for name, message in document["components"]["messages"].items()
        if name.startswith(("topic.", "event.")) and "properties" in message["payload"]
    }
    assert types == {name for topic in TOPICS for name in topic.types}
