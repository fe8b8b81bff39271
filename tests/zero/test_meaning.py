"""What keys mean: settings, connections, destinations, rules; and what is refused."""

import pytest

from tests.zero.words import faults, load, said, settings


def test_keys_of_a_messaging_broker_are_settings_of_the_node() -> None:
    text = """
    /config/messaging/broker/name = "plant7"
    /config/messaging/broker/port = 9091
    /config/messaging/broker/messageStore = "store"
    /config/messaging/broker/maxMessageSize = 65536
    /config/messaging/broker/maxObjectStoreSize = 1000000
    /config/messaging/broker/trace = true
    /config/messaging/broker/persistence = true
    /config/messaging/broker/destroyCurrentMessageStore = false
    """
    assert settings(text) == {
        "name": "plant7", "stomp_port": 9091, "data": "store", "max_body_bytes": 65536,
        "max_store_bytes": 1_000_000, "log_level": "debug",
    }  # fmt: skip


def test_every_setting_of_the_node_may_be_said_by_its_name() -> None:
    found = load('/config/mom/credit = 5\n/config/mom += {\n "port": 8080}')
    assert {name: (said.value, said.source) for name, said in found.settings.items()} == {
        "credit": (5, "zero.config:1"),
        "port": (8080, "zero.config:3"),
    }


def test_connections_are_bridges_and_their_passwords_are_kept_apart() -> None:
    text = """
    /config/connection/messaging/b1 = {"hostname": "localhost", "port": 9091}
    /config/connection/messaging += {
        "b2": {"hostname": "h", "bridgeCredentials": {"user": "u", "password": "hunter2"}}}
    """
    found = load(text).documents["bridges"]
    assert found["b1"].said == {"hostname": "localhost", "port": 9091}
    assert found["b2"].said == {"hostname": "h", "user": "u"}
    assert found["b2"].secrets == {"password": "hunter2"}
    assert found["b2"].source == "zero.config:4"
    assert "hunter2" not in repr(found)


def test_destinations_are_named_by_their_address() -> None:
    text = """
    /config/mom/destinations/queue/orders/new = {"max_messages": 1}
    /config/mom/destinations/topic/prices.> = {"retention_s": 60}
    /config/mom/destinations += {"/queue/with space": {"paused": "none"}}
    """
    assert said("destinations", text) == {
        "/queue/orders/new": {"max_messages": 1},
        "/topic/prices.>": {"retention_s": 60},
        "/queue/with space": {"paused": "none"},
    }


def test_the_depth_of_queues_is_a_setting_of_all_destinations() -> None:
    depth = "/config/messaging/broker/maxQueueDepth = 32768\n"
    everything = '/config/mom/destinations/> = {"max_bytes": 1}\n'
    assert said("destinations", depth) == {">": {"max_messages": 32768}}
    assert said("destinations", depth + everything) == {">": {"max_bytes": 1, "max_messages": 32768}}
    (fault,) = faults(depth + '/config/mom/destinations/> = {"max_messages": 1}')
    assert "max_messages is already set" in fault


def test_rules_are_in_the_order_of_the_files_wherever_they_come_from() -> None:
    text = """
    @include "more.config"
    /config/security/rules += [{"conditions": "/event/queue == b"}, {"conditions": "/event/queue == c"}]
    @include "security/messaging_rule.config" {"conditions": "/event/queue == d", "effect": "deny"}
    """
    more = '/config/security/rules += {"conditions": "/event/queue == a"}'
    rules = said("rules", text, more=more)
    assert [(rule["conditions"][-1], rule["position"]) for rule in rules.values()] == [
        ("a", 1000), ("b", 1010), ("c", 1020), ("d", 1030),
    ]  # fmt: skip


def test_the_name_of_a_rule_is_that_of_what_it_says_and_not_of_where_it_stands() -> None:
    rule = '@include "security/messaging_rule.config" {"conditions": "/event/queue == a", "users": ["u"]}\n'
    moved = '# later\n@include "security/messaging_rule.config" {"users": ["u"], "conditions": "/event/queue == a"}'
    assert list(said("rules", rule)) == list(said("rules", moved))
    assert next(iter(said("rules", rule))).startswith("file-")


def test_users_and_groups_and_brokers_may_be_said() -> None:
    text = """
    /config/mom/groups/billing = {}
    /config/mom/users/john = {"groups": ["billing"]}
    /config/mom/brokers/plant7 = {"environment": "production"}
    """
    assert said("groups", text) == {"billing": {}}
    assert said("users", text) == {"john": {"groups": ["billing"]}}
    assert said("brokers", text) == {"plant7": {"environment": "production"}}


def test_a_file_of_connections_is_named_from_the_folder_of_the_application() -> None:
    text = '@include "brokers.config"\n/config/messaging/broker/configFile = "config/brokers.config"'
    connection = '/config/connection/messaging/b = {"hostname": "h"}'
    assert list(said("bridges", text, brokers=connection)) == ["b"]


def test_a_file_of_connections_says_nothing_else_nor_do_those_that_it_includes() -> None:
    text = '@include "brokers.config"\n/config/messaging/broker/configFile = "brokers.config"'
    found = faults(text, brokers='@include "x.config"\n/config/mom/credit = 1', x="/config/mom/port = 1")
    assert [fault.split(" ", 1)[0] for fault in found] == ["brokers.config:2:1", "x.config:1:1"]
    assert found[0].endswith("may be said in it, not /config/mom/credit")


def test_a_connection_of_both_files_is_that_of_the_first_with_a_warning() -> None:
    text = """
    /config/connection/messaging/b1 = {"hostname": "main"}
    @include "brokers.config"
    /config/messaging/broker/configFile = "brokers.config"
    /config/connection/messaging += {"b2": {"hostname": "main"}}
    """
    brokers = """
    /config/connection/messaging/b1 = {"hostname": "brokers", "bridgeCredentials": {"user": "u", "password": "hunter2"}}
    /config/connection/messaging/b2 = {"hostname": "brokers"}
    """
    found = load(text, brokers=brokers)
    assert {name: bridge.said["hostname"] for name, bridge in found.documents["bridges"].items()} == {
        "b1": "main",
        "b2": "brokers",
    }
    assert [f"{warning.file}:{warning.line} {warning.detail}" for warning in found.warnings] == [
        "brokers.config:2 /config/connection/messaging/b1 is already set at zero.config:2, which holds; this one does not count",
        "zero.config:5 /config/connection/messaging/b2 is already set at brokers.config:3, which holds; this one does not count",
    ]
    assert "hunter2" not in "".join(map(str, found.warnings))
    (fault,) = faults(text, brokers=brokers + '/config/connection/messaging/b2 = {"hostname": "again"}')
    assert fault.startswith("brokers.config:4:5 ") and "so this one has to go" in fault


WRONG = [
    ("/config/mom/credit = 1\n/config/mom/credit = 2", "2:1 /config/mom/credit is already set at zero.config:1"),
    ("/config/mom/credit = 1\n/config/mom/credit += 2", "2:1 /config/mom/credit is a number, said at zero.config:1"),
    ("/config/mom = {}\n/config/mom/credit = 1\n/config/mom = {}", "3:1 /config/mom is already set"),
    ("/config/mom/credit = 1\n/config/mom/credit/x = 2", "2:1 /config/mom/credit/x cannot be: credit is a number"),
    ("/config/security/rules = []\n/config/security/rules/x = 1", "2:1 /config/security/rules/x cannot be: rules is an array"),
    (
        '/config/connection/messaging/b = {"hostname": "h"}\n/config/connection/messaging += {"c": {}, "b": {}}',
        "2:43 /config/connection/messaging/b is already set at zero.config:1",
    ),
    ("/config/mom/users = {}\n/config/mom/users += [1]", "2:22 /config/mom/users is an object, and an array cannot be"),
    ("/config/messaging/broker/name = \"a\"\n/config/mom/name = \"b\"", "2:1 /config/mom/name: the setting name is already set"),
    ("/confg/mom/credit = 1", "1:1 there is no key /confg"),
    ("/config/mom/credits = 1", "1:1 there is no key /config/mom/credits; did you mean /config/mom/credit?"),
    ("/config/messaging/broker/prt = 1", "1:1 there is no key /config/messaging/broker/prt; did you mean /config/messaging/broker/port?"),
    ('/config/messaging = {"broker": {\n"nam": "x"}}', "2:1 there is no key /config/messaging/broker/nam"),
    ("/config/messaging/broker = 1", "1:28 /config/messaging/broker has keys below it; it cannot be a number"),
    ('/config/mom/credit = "x"', "1:22 /config/mom/credit must be a whole number"),
    ("/config/messaging/broker/port = 0", "1:33 /config/messaging/broker/port is 0, by which no broker would start"),
    ("/config/messaging/broker/port = -1", "1:33 /config/messaging/broker/port is -1, by which no broker would"),
    ("/config/messaging/broker/trace = 1", "1:34 /config/messaging/broker/trace must be true or false"),
    ("/config/messaging/broker/persistence = false", "1:40 /config/messaging/broker/persistence can be nothing but true"),
    ("/config/messaging/broker/destroyCurrentMessageStore = true", "1:55 /config/messaging/broker/destroyCurrentMessageStore can be nothing but false"),
    ("/config/messaging/broker/transactionLogSize = 1", "1:1 /config/messaging/broker/transactionLogSize is not for this broker"),
    ("/config/messaging/broker/minObjectStoreSize = 1", "1:1 /config/messaging/broker/minObjectStoreSize is not for this"),
    ("/config/messaging/broker/sslconfig = {}", "1:1 /config/messaging/broker/sslconfig is not for this broker"),
    ('/config/connection/destinations += {"q": {}}', "1:1 /config/connection/destinations is not for this broker"),
    ('/config/mom/admin_password = "x"', "1:1 /config/mom/admin_password: passwords stand in no file"),
    ("/config/connection/messaging = 1", "1:32 /config/connection/messaging must be an object"),
    ("/config/connection/messaging/b = 1", "1:34 bridges b must be an object, not a number"),
    ("/config/mom/destinations/queue/a/max_messages = 1", "1:49 destinations /queue/a/max_messages must be an object"),
    ("/config/security/rules = {}", "1:26 /config/security/rules must be an array of rules"),
    ("/config/security/rules += 1", "1:27 a rule is an object, not a number"),
    ('/config/security/rules += {"position": 1}', "1:28 rules of a file are in the order of the file"),
    (
        '/config/security/rules += {"users": ["u"]}\n/config/security/rules += {"users": ["u"]}',
        "2:27 the same rule stands at zero.config:1 already",
    ),
    ('/config/connection/messaging/b = {"bridgeCredentials": 1}', "1:56 bridgeCredentials must be an object"),
    ('/config/connection/messaging/b = {"bridgeCredentials": {"user": "u", "pasword": "x"}}', "1:70 bridgeCredentials has no pasword; did you mean password?"),
    ('/config/connection/messaging/b = {"bridgeCredentials": {"password": "x"}}', "1:56 the user of a connection is named once"),
    ('/config/messaging/broker/configFile = "config/b.config"', "1:39 config/b.config is not among the files that were read"),
    ("/config/messaging/broker/configFile = 1", "1:39 /config/messaging/broker/configFile must be the path of a file"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), WRONG)
def test_what_means_nothing_here_is_refused_at_its_place(text: str, expected: str) -> None:
    assert faults(text)[0].startswith(f"zero.config:{expected}")


def test_nothing_is_loaded_when_anything_is_wrong_and_all_of_it_is_told() -> None:
    text = '/config/mom/credit = 7\n/config/mom/credits = 1\n@include "no.config"\n/config/mom/port = x\n'
    assert len(faults(text)) == 3


def test_a_document_that_proves_wrong_is_told_at_the_place_of_what_is_wrong() -> None:
    text = '@include "security/messaging_rule.config" {\n  "conditions": "/event/queue == ",\n  "users": ["u", 7]}'
    found = load(text)
    (rule,) = found.documents["rules"].values()
    assert str(found.error(rule, "users/1", "no name")).startswith("zero.config:3:18: no name\n")
    assert str(found.error(rule, "conditions", "expected a value", 16)).startswith(
        "zero.config:2:34: expected"
    )
    assert str(found.error(rule, "position", "too many")).startswith("zero.config:1:1: too many")


def test_the_mark_in_a_text_is_at_its_begin_where_it_was_not_written_as_it_is() -> None:
    found = load('/config/security/rules += {"conditions": "a \\u003d= b"}')
    (rule,) = found.documents["rules"].values()
    assert found.error(rule, "conditions", "no", 4).column == 42
