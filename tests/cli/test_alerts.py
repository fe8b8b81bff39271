"""`mom alert`."""

from broker_app.cli.base.failures import NOT_FOUND, USAGE
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
