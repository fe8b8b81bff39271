"""`mom alert`."""

from broker_app.cli.base.failures import FAILED, NOT_FOUND, USAGE
from broker_app.telemetry.alerts.conditions import CONDITIONS
from tests.cli.conftest import Mom
from tests.support.broker_process import BrokerProcess


def test_an_alert_rule_is_configured_and_its_alert_acknowledged(mom: Mom) -> None:
    made = mom(
        "alert", "rule", "create", "at-once", "condition=no-consumer", "for_s=0", "pattern=/queue/a>",
        "notify=queue:ops,mailto:ops@example.org", "-o", "json",
    )  # fmt: skip
    assert made.code == 0, made.err
    assert made.json()["notify"] == ["queue:ops", "mailto:ops@example.org"]
    assert mom("alert", "rule", "create", "x", "condition=nothing").code != 0
    assert mom("pub", "alerted", "one").code == 0
    rows = mom("alert", "rule", "ls", "-o", "json").json()
    assert {row["name"]: row["origin"] for row in rows} == {
        "at-once": "",
        **dict.fromkeys(map(str, CONDITIONS), "built-in"),
    }
    assert mom("alert", "ls").code == 0
    assert mom("alert", "silence", "1f", "--for", "5m").code == NOT_FOUND
    assert mom("alert", "silence", "1f", "--for", "later").code == USAGE
    missing = mom("alert", "ack", "1f")
    assert missing.code != 0 and "no alert" in missing.err
    assert mom("alert", "rule", "rm", "at-once", "--yes").code == 0


def test_targets_of_notifications_are_tested(mom: Mom) -> None:
    tested = mom("alert", "test", "queue:tested.alerts", "-o", "json")
    assert tested.code == 0, tested.err
    assert [(one["target"], one["ok"]) for one in tested.json()] == [("queue:tested.alerts", True)]
    assert '"event": "test"' in mom("get", "tested.alerts").out
    assert mom("alert", "rule", "create", "mails", "condition=oldest", "notify=mailto:a@b").code == 0
    refused = mom("alert", "test", "--rule", "mails")
    assert (refused.code, "setting smtp names" in refused.out) == (FAILED, True)
    assert "1 of 1 targets did not accept it: mailto:a@b" in refused.err
    assert mom("alert", "test", "queue:a", "--rule", "mails").code == USAGE
    assert mom("alert", "rule", "rm", "mails", "--yes").code == 0


def test_a_built_in_rule_is_shown_changed_and_restored(mom: Mom) -> None:
    assert mom("alert", "rule", "show", "flapping", "-o", "json").json()["threshold"] == 10
    done = mom("alert", "rule", "set", "flapping", "threshold=1000", "-o", "json")
    assert done.code == 0, done.err
    assert (done.json()["threshold"], done.json()["origin"]) == (1000, "")
    assert mom("alert", "rule", "set", "flapping", "enabled=no").code == 0
    assert mom("alert", "rule", "rm", "flapping", "--yes").code == 0
    assert mom("alert", "rule", "show", "flapping", "-o", "json").json()["origin"] == "built-in"
    kept = mom("alert", "rule", "rm", "flapping", "--yes")
    assert kept.code != 0 and "it can be changed, not deleted" in kept.err


def test_commands_do_not_count_as_flapping_clients(broker: BrokerProcess, mom: Mom) -> None:
    for _ in range(6):
        assert mom("pub", "flaps", "x").code == 0
    assert broker.request("GET", "/api/v1/connections").json()["flapping"] == []
