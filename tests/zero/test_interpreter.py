"""Keys for settings, connections, destinations and rules, and the keys that are refused."""

import pytest

from tests.zero.support import documents, faults, load, settings


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


def test_every_setting_of_the_node_can_be_set_by_its_name() -> None:
    found = load('/config/mom/credit = 5\n/config/mom += {\n "port": 8080}')
    assert {name: (setting.value, setting.source) for name, setting in found.settings.items()} == {
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
    assert found["b1"].spec == {"hostname": "localhost", "port": 9091}
    assert found["b2"].spec == {"hostname": "h", "user": "u"}
    assert found["b2"].secrets == {"password": "hunter2"}
    assert found["b2"].source == "zero.config:4"
    assert "hunter2" not in repr(found)


def test_destinations_are_named_by_their_address() -> None:
    text = """
    /config/mom/destinations/queue/orders/new = {"max_messages": 1}
    /config/mom/destinations/topic/prices.> = {"retention_s": 60}
    /config/mom/destinations += {"/queue/with space": {"paused": "none"}}
    """
    assert documents("destinations", text) == {
        "/queue/orders/new": {"max_messages": 1},
        "/topic/prices.>": {"retention_s": 60},
        "/queue/with space": {"paused": "none"},
    }


def test_the_depth_of_queues_is_a_setting_of_all_destinations() -> None:
    depth = "/config/messaging/broker/maxQueueDepth = 32768\n"
    everything = '/config/mom/destinations/> = {"max_bytes": 1}\n'
    assert documents("destinations", depth) == {">": {"max_messages": 32768}}
    assert documents("destinations", depth + everything) == {">": {"max_bytes": 1, "max_messages": 32768}}
    (fault,) = faults(depth + '/config/mom/destinations/> = {"max_messages": 1}')
    assert "max_messages is already set" in fault


def test_rules_are_in_the_order_of_the_files_wherever_they_come_from() -> None:
    text = """
    @include "more.config"
    /config/security/rules += [{"conditions": "/event/queue == b"}, {"conditions": "/event/queue == c"}]
    @include "security/messaging_rule.config" {"conditions": "/event/queue == d", "effect": "deny"}
    """
    more = '/config/security/rules += {"conditions": "/event/queue == a"}'
    rules = documents("rules", text, more=more)
    assert [(rule["conditions"][-1], rule["position"]) for rule in rules.values()] == [
        ("a", 1000), ("b", 1010), ("c", 1020), ("d", 1030),
    ]  # fmt: skip


def test_the_name_of_a_rule_depends_on_its_content_not_on_its_position() -> None:
    rule = '@include "security/messaging_rule.config" {"conditions": "/event/queue == a", "users": ["u"]}\n'
    moved = '# later\n@include "security/messaging_rule.config" {"users": ["u"], "conditions": "/event/queue == a"}'
    assert list(documents("rules", rule)) == list(documents("rules", moved))
    assert next(iter(documents("rules", rule))).startswith("file-")


def test_users_and_groups_and_brokers_can_be_configured() -> None:
    text = """
    /config/mom/groups/billing = {}
    /config/mom/users/john = {"groups": ["billing"]}
    /config/mom/brokers/plant7 = {"environment": "production"}
    """
    assert documents("groups", text) == {"billing": {}}
    assert documents("users", text) == {"john": {"groups": ["billing"]}}
    assert documents("brokers", text) == {"plant7": {"environment": "production"}}


def test_the_path_of_the_file_of_connections_is_relative_to_the_application() -> None:
    text = '@include "brokers.config"\n/config/messaging/broker/configFile = "config/brokers.config"'
    connection = '/config/connection/messaging/b = {"hostname": "h"}'
    assert list(documents("bridges", text, brokers=connection)) == ["b"]


def test_a_file_of_connections_contains_nothing_else_nor_do_its_includes() -> None:
    text = '@include "brokers.config"\n/config/messaging/broker/configFile = "brokers.config"'
    found = faults(text, brokers='@include "x.config"\n/config/mom/credit = 1', x="/config/mom/port = 1")
    assert [fault.split(" ", 1)[0] for fault in found] == ["brokers.config:2:1", "x.config:1:1"]
    assert found[0].endswith("may be set in it, not /config/mom/credit")


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
    assert {name: bridge.spec["hostname"] for name, bridge in found.documents["bridges"].items()} == {
        "b1": "main",
        "b2": "brokers",
    }
    assert [f"{warning.file}:{warning.line} {warning.detail}" for warning in found.warnings] == [
        "brokers.config:2 /config/connection/messaging/b1 is already set at zero.config:2, which takes precedence; this one has no effect",
        "zero.config:5 /config/connection/messaging/b2 is already set at brokers.config:3, which takes precedence; this one has no effect",
    ]
    assert "hunter2" not in "".join(map(str, found.warnings))
    (fault,) = faults(text, brokers=brokers + '/config/connection/messaging/b2 = {"hostname": "again"}')
    assert fault.startswith("brokers.config:4:5 ") and fault.endswith("; remove this one")


WRONG = [
    ("/config/mom/credit = 1\n/config/mom/credit = 2", "2:1 /config/mom/credit is already set at zero.config:1"),
    ("/config/mom/credit = 1\n/config/mom/credit += 2", "2:1 /config/mom/credit is a number, set at zero.config:1"),
    ("/config/mom = {}\n/config/mom/credit = 1\n/config/mom = {}", "3:1 /config/mom is already set"),
    ("/config/mom/credit = 1\n/config/mom/credit/x = 2", "2:1 /config/mom/credit/x cannot be set: credit is a number"),
    ("/config/security/rules = []\n/config/security/rules/x = 1", "2:1 /config/security/rules/x cannot be set: rules is an array"),
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
    ("/config/messaging/broker = 1", "1:28 /config/messaging/broker has keys below it, so it must be an object, not a number"),
    ('/config/mom/credit = "x"', "1:22 /config/mom/credit must be a whole number"),
    ("/config/messaging/broker/port = 0", "1:33 /config/messaging/broker/port is 0, so no broker would start"),
    ("/config/messaging/broker/port = -1", "1:33 /config/messaging/broker/port is -1, so no broker would"),
    ("/config/messaging/broker/trace = 1", "1:34 /config/messaging/broker/trace must be true or false"),
    ("/config/messaging/broker/persistence = false", "1:40 /config/messaging/broker/persistence must be true"),
    ("/config/messaging/broker/destroyCurrentMessageStore = true", "1:55 /config/messaging/broker/destroyCurrentMessageStore must be false"),
    ("/config/messaging/broker/transactionLogSize = 1", "1:1 /config/messaging/broker/transactionLogSize is not supported"),
    ("/config/messaging/broker/minObjectStoreSize = 1", "1:1 /config/messaging/broker/minObjectStoreSize is not supported"),
    ("/config/messaging/broker/sslconfig = {}", "1:1 /config/messaging/broker/sslconfig is not supported"),
    ('/config/connection/destinations += {"q": {}}', "1:1 /config/connection/destinations is not supported"),
    ('/config/mom/admin_password = "x"', "1:1 /config/mom/admin_password: passwords stand in no file"),
    ("/config/connection/messaging = 1", "1:32 /config/connection/messaging must be an object"),
    ("/config/connection/messaging/b = 1", "1:34 bridges b must be an object, not a number"),
    ("/config/mom/destinations/queue/a/max_messages = 1", "1:49 destinations /queue/a/max_messages must be an object"),
    ("/config/security/rules = {}", "1:26 /config/security/rules must be an array of rules"),
    ("/config/security/rules += 1", "1:27 a rule must be an object, not a number"),
    ('/config/security/rules += {"position": 1}', "1:28 remove the position"),
    (
        '/config/security/rules += {"users": ["u"]}\n/config/security/rules += {"users": ["u"]}',
        "2:27 the same rule is already at zero.config:1",
    ),
    ('/config/connection/messaging/b = {"bridgeCredentials": 1}', "1:56 bridgeCredentials must be an object"),
    ('/config/connection/messaging/b = {"bridgeCredentials": {"user": "u", "pasword": "x"}}', "1:70 bridgeCredentials has no pasword; did you mean password?"),
    ('/config/connection/messaging/b = {"bridgeCredentials": {"password": "x"}}', "1:56 name the user of a connection once"),
    ('/config/messaging/broker/configFile = "config/b.config"', "1:39 config/b.config was not read"),
    ("/config/messaging/broker/configFile = 1", "1:39 /config/messaging/broker/configFile must be the path of a file"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), WRONG)
def test_statements_without_a_meaning_are_refused_at_their_position(text: str, expected: str) -> None:
    assert faults(text)[0].startswith(f"zero.config:{expected}")


def test_nothing_is_loaded_with_errors_and_all_are_reported() -> None:
    text = '/config/mom/credit = 7\n/config/mom/credits = 1\n@include "no.config"\n/config/mom/port = x\n'
    assert len(faults(text)) == 3


def test_an_invalid_document_is_reported_at_the_position_of_the_error() -> None:
    text = '@include "security/messaging_rule.config" {\n  "conditions": "/event/queue == ",\n  "users": ["u", 7]}'
    found = load(text)
    (rule,) = found.documents["rules"].values()
    assert str(found.error(rule, "users/1", "no name")).startswith("zero.config:3:18: no name\n")
    assert str(found.error(rule, "conditions", "expected a value", 16)).startswith(
        "zero.config:2:34: expected"
    )
    assert str(found.error(rule, "position", "too many")).startswith("zero.config:1:1: too many")


def test_the_marker_of_a_text_with_escapes_is_at_its_start() -> None:
    found = load('/config/security/rules += {"conditions": "a \\u003d= b"}')
    (rule,) = found.documents["rules"].values()
    assert found.error(rule, "conditions", "no", 4).column == 42
