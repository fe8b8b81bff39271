"""Reflexes that come with MOM, in the harness for tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from broker_app.reflex.declaration import ARRIVAL, DELIVERY, KINDS, Declaration
from broker_app.reflex.registration import Registration
from broker_app.reflex.shipped import audit, table
from broker_app.reflex.testing import Harness
from tests.support.clock import Clock


def declared(function: str, library: str = "mom", kind: str = ARRIVAL, **options: Any) -> list[Declaration]:
    return [Declaration("r", kind, library, function, options=options)]


def test_headers_are_set_renamed_and_removed() -> None:
    harness = Harness(
        declared(
            "set_headers",
            set={"route": "${region}/${@service}", "by": "${@user}", "absent": "${nothing}"},
            rename={"old": "new"},
            remove=["secret", "not-there"],
        )
    )
    result = harness.arrive("stock", headers={"region": "eu", "old": "1", "secret": "x"}, user="anna")
    assert result.headers == {"region": "eu", "new": "1", "route": "eu/stock", "by": "anna"}


def test_what_is_too_fast_is_refused_with_the_time_to_wait() -> None:
    clock = Clock()
    harness = Harness(declared("limit_rate", rate=2, burst=2, by="user"), clock=clock)
    assert [harness.arrive("a", user="anna").accepted for _ in range(3)] == [True, True, False]
    assert harness.arrive("a", user="bob").accepted
    refused = harness.arrive("a", user="anna")
    assert refused.facts == {"retry_s": 0.5}
    assert refused.reason == "more than 2 a second by user; try again in 0.500 s"
    clock.now += 0.5
    assert [harness.arrive("a", user="anna").accepted for _ in range(2)] == [True, False]


def test_a_rate_is_limited_by_service_or_by_header() -> None:
    harness = Harness(declared("limit_rate", rate=1))
    assert [harness.arrive(name).accepted for name in "aab"] == [True, False, True]
    harness = Harness(declared("limit_rate", rate=1, by="header:tenant"))
    tenants = [{"tenant": "x"}, {"tenant": "x"}, {"tenant": "y"}]
    assert [harness.arrive("a", headers=tenant).accepted for tenant in tenants] == [True, False, True]


def test_registrations_can_be_limited() -> None:
    harness = Harness(declared("limit_rate", kind="registration", rate=1, by="user"))
    registrations = [Registration("a", "anna"), Registration("b", "anna"), Registration("a", "bob")]
    assert [harness.register(one).accepted for one in registrations] == [True, False, True]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"amount": 3}', ""),
        (
            b'{"amount": -1}',
            "the body does not match the schema at /amount: -1 is less than the minimum of 0",
        ),
        (b"{}", "the body does not match the schema at /: 'amount' is a required property"),
        (b"{", "the body is not JSON: Expecting property name"),
        (b"\xff", "the body is not JSON"),
    ],
)
def test_bodies_are_checked_against_a_schema(body: bytes, reason: str, tmp_path: Path) -> None:
    schema = {"required": ["amount"], "properties": {"amount": {"type": "number", "minimum": 0}}}
    file = tmp_path / "schema.json"
    file.write_text(json.dumps(schema))
    for options in ({"schema": schema}, {"file": str(file)}):
        result = Harness(declared("check_schema", "mom-schema", **options)).arrive("orders", body)
        assert result.accepted == (not reason)
        assert result.reason.startswith(reason)


def test_a_schema_in_a_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    harness = Harness(declared("check_schema", "mom-schema", file=str(file)))
    assert "cannot be read" in harness.arrive("a", b"1").asked[0].failure
    file.write_text('{"type": "string"}')
    assert not harness.arrive("a", b"1").accepted
    file.write_text('{"type": "number"}')
    assert harness.arrive("a", b"1").accepted


def test_messages_are_audited_in_a_file(tmp_path: Path) -> None:
    harness = Harness(declared("audit", headers=["tenant"]), data=tmp_path)
    for body in (b"1", b"22"):
        assert harness.arrive("stock", body, {"tenant": "x", "other": "y", "type": "t"}, user="anna").accepted
    lines = [json.loads(line) for line in (tmp_path / "audit" / "r.jsonl").read_text().splitlines()]
    assert [line.pop("at")[-6:] for line in lines] == ["+00:00"] * 2
    assert lines[1] == {
        "reflex": "r",
        "kind": "arrival",
        "destination": "/queue/stock",
        "type": "t",
        "user": "anna",
        "bytes": 2,
        "headers": {"tenant": "x"},
    }


def test_a_full_audit_file_is_kept_beside_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "MAX_FILE_BYTES", 300)
    harness = Harness(declared("audit", kind=DELIVERY), data=tmp_path)
    for _ in range(5):
        harness.deliver("stock", b"1")
    kept = [(tmp_path / "audit" / name).read_text().count("\n") for name in ("r.1.jsonl", "r.jsonl")]
    assert kept == [2, 1]


def test_an_audit_that_cannot_be_written_refuses_the_message(tmp_path: Path) -> None:
    (tmp_path / "audit").write_text("a file, and no directory")
    result = Harness(declared("audit"), data=tmp_path).arrive("stock", b"1")
    assert not result.accepted
    assert "cannot be written: File exists" in result.asked[0].failure


def test_messages_are_audited_in_the_event_log(tmp_path: Path) -> None:
    harness = Harness(declared("audit", to="events"), data=tmp_path)
    harness.arrive("stock", b"1", user="anna")
    (event,) = harness.events.all()
    assert (event.kind, event.name, event.event) == ("reflexes", "r", "audited")
    assert event.detail == "1 bytes from anna to /queue/stock"


def test_a_copy_has_the_same_copy_id_and_goes_through_the_bridge() -> None:
    harness = Harness(declared("copy_to_broker", broker="b2"))
    result = harness.arrive("stock", b"1", {"a": "b", "dedup-id": "x"})
    (copy,) = result.messages
    copy_id = result.headers["mom-copy-id"]
    assert copy.destination == "/queue/storeAndForward:b2/queue/stock"
    assert (copy.body, copy.headers) == (b"1", {"a": "b", "mom-copy-id": copy_id})
    assert harness.arrive("stock").headers["mom-copy-id"] != copy_id
    assert harness.arrive("stock", b"1", result.headers).messages == []


@pytest.mark.parametrize(
    ("library", "function", "options", "failure"),
    [
        ("mom", "limit_rate", {"rate": 0}, "option rate must be a number above 0"),
        ("mom", "limit_rate", {"rate": 1, "by": "header:"}, "option by must be service, user or header:NAME"),
        ("mom", "set_headers", {"set": {"a": 1}}, "option set must be an object whose members are texts"),
        ("mom", "audit", {"to": "moon"}, "option to must be one of file, events"),
        ("mom-schema", "check_schema", {}, "exactly one of the options schema and file is needed"),
        ("mom-schema", "check_schema", {"schema": {"type": "x"}}, "the schema is not valid"),
        ("mom-schema", "check", {}, "library mom-schema has no function check; it has check_schema"),
        ("absent", "f", {}, "there is no library absent"),
    ],
)
def test_wrong_options_make_a_reflex_unusable(
    library: str, function: str, options: dict[str, Any], failure: str
) -> None:
    result = Harness(declared(function, library, **options)).arrive("stock")
    assert failure in result.asked[0].failure


@pytest.mark.parametrize("kind", KINDS)
def test_each_shipped_function_names_the_kinds_that_it_is_for(kind: str) -> None:
    allowed = {
        (library, name): one.kinds
        for library, names in table.IN_BROKER.items()
        for name, one in names.items()
    }
    allowed["mom-schema", "check_schema"] = (ARRIVAL, DELIVERY)
    needed: dict[str, dict[str, Any]] = {
        "limit_rate": {"rate": 1},
        "copy_to_broker": {"broker": "b2"},
        "delete_copy": {"broker": "b2"},
        "check_schema": {"schema": {}},
    }
    for (library, function), kinds in allowed.items():
        fault = table.fault(kind, library, function, needed.get(function, {}))
        refused = ("kind", f"{function} is for {' and '.join(kinds)} only")
        assert fault == (None if kind in kinds else refused)
