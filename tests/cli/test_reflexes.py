"""`mom reflex`."""

import json
from pathlib import Path

from tests.cli.conftest import Mom


def test_a_reflex_is_declared_tried_and_removed(mom: Mom) -> None:
    made = mom(
        "reflex", "create", "slow", "service=limited", "library=mom", "function=limit_rate",
        'options={"rate": 0.001, "burst": 1}', "-o", "json",
    )  # fmt: skip
    assert made.code == 0, made.err
    assert made.json()["options"] == {"rate": 0.001, "burst": 1}
    assert (made.json()["kind"], made.json()["on_failure"]) == ("arrival", "refuse")
    tried = mom("reflex", "test", "limited", "a body", "-o", "json")
    assert (tried.code, json.loads(tried.out)[0]["result"]) == (0, "accepted")
    assert mom("pub", "limited", "1").code == 0
    refused = mom("pub", "limited", "2")
    assert refused.code == 4
    assert "refused by reflex slow: more than 0.001 a second by service" in refused.err
    tried = mom("reflex", "test", "limited")
    assert tried.code == 4
    assert "refused by slow: more than 0.001 a second" in tried.out + tried.err
    (row,) = mom("reflex", "ls", "-o", "json", "--for", "limited").json()
    assert (row["name"], row["state"]) == ("slow", "running")
    stats = mom("reflex", "stats", "-o", "json").json()
    assert [(one["calls"], one["refusals"]) for one in stats if one["name"] == "slow"] == [(2, 1)]
    shown = mom("reflex", "show", "slow", "-o", "json").json()
    assert (shown["options"]["rate"], shown["refusals"]) == (0.001, 1)
    assert mom("reflex", "set", "slow", "enabled=no").code == 0
    assert mom("pub", "limited", "3").code == 0
    assert mom("reflex", "rm", "slow", "--yes").code == 0
    assert mom("reflex", "show", "slow").code != 0


def test_what_is_wrong_is_said_by_field(mom: Mom) -> None:
    wrong = mom("reflex", "create", "x", "service=orders", "library=nolib", "function=f")
    assert (
        wrong.code != 0
        and "there is no library nolib" in wrong.err
        and "save the reflex disabled" in wrong.err
    )
    assert mom("reflex", "ls", "-o", "json").json() == []
    wrong = mom("reflex", "create", "x", "library=mom", "function=limit")
    assert wrong.code != 0
    assert "library mom has no function limit; it has audit" in wrong.err
    schema = ("library=mom-schema", "function=check_schema", 'options={"schema": {}}')
    wrong = mom("reflex", "create", "x", "kind=registration", *schema)
    assert wrong.code != 0
    assert "check_schema is for arrival and delivery only" in wrong.err
    assert (
        "a reflex has no field serivce; did you mean service?" in mom("reflex", "set", "x", "serivce=a").err
    )


def test_a_registration_and_a_delivery_are_tried(mom: Mom, tmp_path: Path) -> None:
    for name, kind, library, function in (
        ("callbacks", "registration", "RE_LocalService.dll", "REenableCallbacks"),
        ("schema", "delivery", "mom-schema", "check_schema"),
    ):
        options = 'options={"schema": {"type": "number"}}' if name == "schema" else "comment=x"
        made = mom(
            "reflex", "create", name, f"kind={kind}", f"library={library}", f"function={function}", options
        )
        assert made.code == 0, made.err
    tried = mom("reflex", "test", "stock", "--registration", "-o", "json")
    assert json.loads(tried.out)[0]["marks"] == ["callbacks"]
    body = tmp_path / "body"
    body.write_text('"text"')
    tried = mom("reflex", "test", "stock", f"@{body}", "--delivery")
    assert tried.code == 4
    assert "is not of type 'number'" in tried.out
    assert mom("reflex", "restart", "mom-schema").code == 0
    missing = mom("reflex", "restart", "mom-shema")
    assert missing.code != 0
    assert "did you mean mom-schema?" in missing.err
    both = mom("reflex", "test", "stock", "--delivery", "--registration")
    assert both.code != 0
    for name in ("callbacks", "schema"):
        assert mom("reflex", "rm", name, "--yes").code == 0


def test_stored_messages_are_tried(mom: Mom) -> None:
    for body in ("1", "one", "2"):
        assert mom("pub", "tried", body).code == 0
    options = 'options={"schema": {"type": "number"}}'
    made = mom(
        "reflex", "create", "numbers", "service=tried", "library=mom-schema", "function=check_schema",
        options, "enabled=no",
    )  # fmt: skip
    assert made.code == 0, made.err
    tried = mom("reflex", "test", "tried", "--last", "2", "--reflex", "numbers")
    assert tried.code == 0, tried.err
    assert "2 messages: 1 refused, 1 kept" in tried.out + tried.err
    found = mom("reflex", "test", "tried", "--last", "100", "--reflex", "numbers", "-o", "json").json()
    assert (found["messages"], found["refused"], found["kept"]) == (3, 1, 2)
    assert found["first"]["refused"][0]["reflex"] == "numbers"
    assert "add --last 100" in mom("reflex", "test", "tried", "--reflex", "numbers").err
    assert "leave out the message" in mom("reflex", "test", "tried", "1", "--last", "2").err
    assert mom("reflex", "rm", "numbers", "--yes").code == 0
