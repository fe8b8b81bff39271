"""`mom alert`."""

from tests.cli.conftest import Mom


def test_a_rule_is_said_and_its_alert_answered(mom: Mom) -> None:
    made = mom(
        "alert", "rule", "create", "at-once", "condition=no-consumer", "for_s=0", "pattern=/queue/a>",
        "notify=queue:ops,mailto:ops@example.org", "-o", "json",
    )  # fmt: skip
    assert made.code == 0, made.err
    assert made.json()["notify"] == ["queue:ops", "mailto:ops@example.org"]
    assert mom("alert", "rule", "create", "x", "condition=nothing").code != 0
    assert mom("pub", "alerted", "one").code == 0
    rows = mom("alert", "rule", "ls", "-o", "json").json()
    assert [row["name"] for row in rows] == ["at-once"]
    assert mom("alert", "ls").code == 0
    missing = mom("alert", "ack", "1f")
    assert missing.code != 0 and "no alert" in missing.err
    assert mom("alert", "rule", "rm", "at-once", "--yes").code == 0
