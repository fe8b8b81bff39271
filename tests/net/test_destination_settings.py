"""Settings of destinations, and the policies that follow from them."""

import math
from dataclasses import fields
from typing import Any

import pytest

from broker_app.base.refused import Refused
from broker_app.config import Config
from broker_app.core.policy import DestinationPolicy
from broker_app.net.policy.destination_settings import (
    GLASSFISH,
    SETTINGS,
    Destinations,
    Effective,
    Own,
    check_address,
    faults,
    node_values,
)

A = "/queue/a"
NO_QUEUES = Config(auto_create_queues=False)


def said(**rows: dict[str, Any]) -> Destinations:
    names = {"everything": ">", "queues": "/queue/>", "orders": "/queue/orders.>", "own": "/queue/orders.new"}
    return Destinations(
        {names[name]: Own(values, number) for number, (name, values) in enumerate(rows.items(), 1)},
        {"max_attempts": 7},
    )


def test_every_field_of_a_policy_has_a_setting() -> None:
    assert {setting.field for setting in SETTINGS.values()} == {row.name for row in fields(DestinationPolicy)}


def test_every_default_is_a_valid_value() -> None:
    assert faults({name: setting.default for name, setting in SETTINGS.items()}, A) == {}


def test_without_rows_the_settings_of_the_node_hold() -> None:
    destinations = said()
    assert destinations.policies.of(A) == DestinationPolicy(max_attempts=7)
    assert destinations.effective(A)["max_attempts"] == Effective(7, "node")
    assert destinations.effective(A)["max_messages"] == Effective(0, "default")
    assert destinations.version(A) == 0


def test_a_broker_may_be_told_to_create_no_queues_by_itself() -> None:
    destinations = Destinations({"/queue/orders.>": Own({"auto_create": True}, 1)}, node_values(NO_QUEUES))
    assert not destinations.policies.of(A).auto_create
    assert destinations.policies.of("/queue/orders.new").auto_create
    assert Destinations({}, node_values(Config())).policies.of(A).auto_create


def test_each_value_comes_from_the_nearest_row_that_has_it() -> None:
    destinations = said(
        own={"max_messages": 1},
        everything={"max_messages": 4, "max_bytes": 4, "max_consumers": 4, "max_attempts": 4},
        orders={"max_messages": 2, "max_bytes": 2},
        queues={"max_messages": 3, "max_bytes": 3, "max_consumers": 3},
    )
    expected = {
        "max_messages": (1, "own"),
        "max_bytes": (2, "/queue/orders.>"),
        "max_consumers": (3, "/queue/>"),
        "max_attempts": (4, ">"),
        "max_producers": (0, "default"),
    }
    found = destinations.effective("/queue/orders.new")
    assert {name: found[name] for name in expected} == expected
    policy = destinations.policies.of("/queue/orders.new")
    assert {name: getattr(policy, name) for name in expected} == {
        name: value for name, (value, _) in expected.items()
    }
    assert destinations.policies.of("/queue/orders.old").max_messages == 2
    assert destinations.policies.of("/queue/orders").max_messages == 3
    assert destinations.policies.of("/topic/orders.new").max_messages == 4
    assert destinations.version("/queue/orders.new") == 1


def test_settings_fixed_by_the_core_are_shown_as_they_are() -> None:
    found = said(everything={"max_messages": 4, "limit_behavior": "REJECT_NEWEST"}).effective("/queue/a.dead")
    assert found["max_messages"] == (100_000, "default")
    assert found["limit_behavior"] == ("REMOVE_OLDEST", "default")
    found = said(queues={"max_messages": 3, "use_dead_letters": True}).effective("/queue/a.dead")
    assert found["max_messages"] == (3, "/queue/>")
    assert found["use_dead_letters"] == (True, "/queue/>")


def test_seconds_become_milliseconds() -> None:
    destinations = said(own={"retry_delay_s": 0.25, "retry_factor": 3})
    policy = destinations.policies.of("/queue/orders.new")
    assert (policy.retry_delay_ms, policy.retry_factor, type(policy.retry_delay_ms)) == (250, 3.0, int)


@pytest.mark.parametrize(
    ("name", "value", "word"),
    [
        ("max_mesages", 1, "did you mean max_messages"),
        ("colour", 1, "no such setting"),
        ("max_messages", -1, "from 0"),
        ("max_messages", 1.5, "whole number"),
        ("max_messages", True, "whole number"),
        ("max_messages", "1", "whole number"),
        ("max_messages", 10**30, "from 0"),
        ("max_attempts", 0, "from 1"),
        ("retry_delay_s", math.nan, "number"),
        ("retry_delay_s", math.inf, "number"),
        ("retry_factor", 0.5, "from 1"),
        ("limit_behavior", "DROP", "REMOVE_OLDEST"),
        ("limit_behavior", ["DROP"], "REMOVE_OLDEST"),
        ("dead_letters", 7, "name of a queue"),
        ("dead_letters", "a\n", "white space"),
        ("auto_create", "yes", "true or false"),
        ("local_only", 1, "true or false"),
        ("paused", None, "one of none, producers"),
    ],
)
def test_invalid_values_are_reported(name: str, value: object, word: str) -> None:
    assert word in faults({name: value, "max_bytes": 1}, A)[name]


def test_consumers_of_a_topic_are_not_paused() -> None:
    assert faults({"paused": "producers"}, "/topic/t") == {}
    assert "keeps no messages" in faults({"paused": "all"}, "/topic/t")["paused"]


def test_only_queues_prefer_local_consumers() -> None:
    assert faults({"prefer_local": True}, A) == {}
    assert faults({"prefer_local": True}, ">") == {}
    assert "every subscriber" in faults({"prefer_local": True}, "/topic/t")["prefer_local"]


def test_a_destination_with_only_local_consumers_has_no_preference_for_them() -> None:
    assert faults({"local_only": True, "prefer_local": False}, A) == {}
    both = faults({"local_only": True, "prefer_local": True}, A)
    assert list(both) == ["prefer_local"] and "local_only" in both["prefer_local"]


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("maxNumMsgs", "max_messages here, where 0 is no limit"),
        ("isLocalOnly", "local_only here"),
        ("maxNumBackupConsumers", "exclusive"),
        ("consumerFlowLimit", "credit"),
    ],
)
def test_a_name_of_glassfish_mq_is_refused_with_the_name_here(name: str, word: str) -> None:
    fault = faults({name: 1}, A)[name]
    assert fault.startswith("is a name of GlassFish MQ") and word in fault


def test_every_name_of_glassfish_mq_is_a_setting_or_has_a_replacement() -> None:
    for alias in GLASSFISH.values():
        assert (alias.setting in SETTINGS) != bool(alias.instead)


def test_two_defaults_differ_from_those_of_glassfish_mq() -> None:
    theirs = {
        "maxNumMsgs": 0,
        "maxTotalMsgBytes": 0,
        "maxBytesPerMsg": 0,
        "maxNumProducers": 100,
        "maxNumActiveConsumers": 0,
        "limitBehavior": "REJECT_NEWEST",
        "useDMQ": True,
        "isLocalOnly": False,
        "localDeliveryPreferred": False,
    }
    ours = {name: getattr(DestinationPolicy(), one.setting) for name, one in GLASSFISH.items() if one.setting}
    assert ours == theirs | {"maxNumProducers": 0, "limitBehavior": "FLOW_CONTROL"}


@pytest.mark.parametrize("name", ["orders", "Orders1", "_orders", "mqueue", "mq.sys.dmq"])
def test_names_that_glassfish_mq_has_or_reserves_are_ordinary_but_for_those_with_a_dollar(name: str) -> None:
    assert check_address(f"/queue/{name}") == f"/queue/{name}"
    with pytest.raises(Refused, match="reserved for the broker"):
        check_address(f"/queue/${name}")


@pytest.mark.parametrize(
    "address", [">", "/queue/>", "/queue/a", "/queue/a.>", "/queue/a b/c", "/topic/a.b.>"]
)
def test_addresses_and_patterns_have_settings(address: str) -> None:
    assert check_address(address) == address


@pytest.mark.parametrize(
    "address",
    ["", "a", "/queue/", "/queue/a>", "/temp-queue/a", "/topic/$mom.x", "/topic/*.a", "/topic/a.#", "/x/a"],
)
def test_other_addresses_have_none(address: str) -> None:
    with pytest.raises(Refused):
        check_address(address)
