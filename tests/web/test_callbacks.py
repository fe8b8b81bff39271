"""Callbacks over HTTP: their secrets, their owners, and what is refused."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from broker_app import models
from broker_app.features.callbacks.webhooks.signature import key_of, new_secret
from broker_app.web import actions
from broker_app.web.actions import SYSTEM, Edit, apply
from broker_app.web.auth.encryption import seal
from broker_app.web.resource_types.callbacks import callbacks, reseal
from tests.web.test_resources import Ask, ask, by_token, john, no_former_guesses  # noqa: F401

pytestmark = pytest.mark.django_db

URL = "https://hooks.example.org/orders"


def rules(*given: tuple[str, str]) -> None:
    """Have rules that allow a user a method at any destination."""
    for place, (user, method) in enumerate(given):
        spec = {"conditions": f"/event/method == {method}", "users": [user], "position": place}
        apply(SYSTEM, [Edit("rules", f"r{place}", spec)])


def test_a_callback_without_a_name_and_a_secret_gets_both_and_shows_the_secret_once(ask: Ask) -> None:  # noqa: F811
    made = ask("POST", "callbacks", {"queue": "a", "url": URL, "max_in_flight": 7})
    assert (made.status, made.headers["Location"]) == (201, "/api/v1/callbacks/callback-1"), made.body
    assert made.headers["Cache-Control"] == "no-store"
    assert len(key_of(made.body["secret"])) == 32
    assert (made.body["owner"], made.body["max_in_flight"]) == ("admin", 7)
    assert callbacks()["callback-1"].secret == made.body["secret"]
    assert made.body["secret"] not in json.dumps(list(models.Callback.objects.values()), default=str)
    seen = ask("GET", "callbacks/callback-1")
    assert "secret" not in seen.body
    assert ask("POST", "callbacks", {"queue": "a", "url": URL}).body["name"] == "callback-2"
    put = ask("PUT", "callbacks/mine", {"topic": "a.>", "url": URL})
    assert (put.status, put.headers["Cache-Control"]) == (201, "no-store")
    assert callbacks()["mine"].secret == put.body["secret"]


def test_a_repeated_request_does_not_show_the_secret_again(ask: Ask) -> None:  # noqa: F811
    body = {"queue": "a", "url": URL}
    assert ask("POST", "callbacks", body, idempotency_key="k").status == 201
    again = ask("POST", "callbacks", body, idempotency_key="k")
    assert again.problem == (409, "conflict")
    assert models.Callback.objects.count() == 1


def test_a_rotated_secret_leaves_the_former_one_valid_for_a_day(ask: Ask) -> None:  # noqa: F811
    first = ask("POST", "callbacks", {"name": "hook", "queue": "a", "url": URL}).body["secret"]
    rotated = ask("POST", "callbacks/hook/rotate")
    assert (rotated.status, rotated.headers["Cache-Control"]) == (201, "no-store"), rotated.body
    found, now_s = callbacks()["hook"], timezone.now().timestamp()
    assert found.secrets_at(now_s) == (rotated.body["secret"], first)
    assert found.secrets_at(now_s + 25 * 3600) == (rotated.body["secret"],)
    assert ask("GET", "callbacks/hook").body["former_secret_until"] is not None
    models.Callback.objects.update(former_until=timezone.now() - timedelta(seconds=1))
    assert ask("GET", "callbacks/hook").body["former_secret_until"] is None
    own = new_secret()
    assert ask("PATCH", "callbacks/hook", {"secret": own}, if_match="*").status == 200
    assert callbacks()["hook"].secret == own
    assert ask("POST", "callbacks/hok/rotate").problem == (404, "not-found")


def test_a_dry_run_names_the_secret_and_makes_nothing(ask: Ask) -> None:  # noqa: F811
    tried = ask("POST", "callbacks?dry_run=true", {"queue": "a", "url": URL})
    assert (tried.status, tried.body["changes"][0]["secrets"]) == (200, ["secret"])
    assert "whsec_" not in json.dumps(tried.body)
    assert not models.Callback.objects.exists()


WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, "/url"),
    ({"url": URL}, "/queue"),
    ({"url": URL, "queue": "a", "topic": "b"}, "/queue"),
    ({"url": "ftp://x/", "queue": "a"}, "/url"),
    ({"url": "https:///x", "queue": "a"}, "/url"),
    ({"url": "https://user:password@x/", "queue": "a"}, "/url"),
    ({"url": "https://x/#y", "queue": "a"}, "/url"),
    ({"url": "https://x:99999/", "queue": "a"}, "/url"),
    ({"url": "https://x/ä", "queue": "a"}, "/url"),
    ({"url": "https://127.0.0.1\\@x/", "queue": "a"}, "/url"),
    ({"url": URL, "queue": "$mom.x"}, "/queue"),
    ({"url": URL, "queue": "storeAndForward:b/queue/q"}, "/queue"),
    ({"url": URL, "queue": "a.>"}, "/queue"),
    ({"url": URL, "topic": "a", "mode": "notify"}, "/mode"),
    ({"url": URL, "queue": "a", "mode": "notify", "selector": "a = 1"}, "/mode"),
    ({"url": URL, "queue": "a", "mode": "shout"}, "/mode"),
    ({"url": URL, "queue": "a", "selector": "a = = 1"}, "/selector"),
    ({"url": URL, "queue": "a", "selector": "a" * 1_025}, "/selector"),
    ({"url": URL, "queue": "a", "max_in_flight": 101}, "/max_in_flight"),
    ({"url": URL, "queue": "a", "timeout_s": 0}, "/timeout_s"),
    ({"url": URL, "queue": "a", "retry_s": 10, "max_retry_s": 5}, "/max_retry_s"),
    ({"url": URL, "queue": "a", "headers": {"Authorization": "Bearer x"}}, "/headers"),
    ({"url": URL, "queue": "a", "headers": {"Content-Length": "1"}}, "/headers"),
    ({"url": URL, "queue": "a", "headers": {"Webhook-Id": "1"}}, "/headers"),
    ({"url": URL, "queue": "a", "headers": {"X-A": "b\r\nX-C: d"}}, "/headers"),
    ({"url": URL, "queue": "a", "secret": "whsec_c2hvcnQ="}, "/secret"),
    ({"url": URL, "queue": "a", "secret": "swordfish"}, "/secret"),
    ({"url": URL, "queue": "a", "authorization": "a\nb"}, "/authorization"),
    ({"url": URL, "queue": "a", "owner": "nobody"}, "/owner"),
    ({"url": URL, "queue": "a", "qeue": "b"}, "/qeue"),
]


def test_a_wrong_callback_is_refused_where_it_is_wrong(ask: Ask) -> None:  # noqa: F811
    for said, pointer in WRONG:
        assert ask("POST", "callbacks", said).pointers == [pointer], said


def test_names_are_those_that_a_url_can_hold(ask: Ask) -> None:  # noqa: F811
    for name in ("a/b", "", "ä", ".a", "a" * 65):
        assert ask("POST", "callbacks", {"name": name, "queue": "a", "url": URL}).status == 400


def test_http_is_accepted_with_a_warning(ask: Ask) -> None:  # noqa: F811
    made = ask("POST", "callbacks", {"queue": "a", "url": "http://hooks.internal/a"})
    assert made.body["warnings"] == ["the URL is http: messages and credentials are sent without encryption"]


def test_http_of_this_machine_needs_no_warning(ask: Ask) -> None:  # noqa: F811
    assert not ask("POST", "callbacks", {"queue": "a", "url": "http://127.0.0.1:9/a"}).body.get("warnings")


def test_the_owner_needs_the_right_to_receive_when_a_callback_is_made(ask: Ask) -> None:  # noqa: F811
    john()
    rules(("john", "POST"))
    refused = ask("POST", "callbacks", {"queue": "a", "url": URL, "owner": "john"})
    assert refused.problem == (400, "invalid")
    assert "john has no right to GET queue a" in json.dumps(refused.body)
    rules(("john", "POST"), ("john", "GET"))
    assert ask("POST", "callbacks", {"queue": "a", "url": URL, "owner": "john"}).status == 201
    assert ask("PATCH", "callbacks/callback-1", {"owner": "nobody"}, if_match="*").pointers == ["/owner"]


def test_users_make_and_see_their_own_callbacks_where_they_may_manage(ask: Ask) -> None:  # noqa: F811
    john()
    rules(("john", "GET"))
    johns = by_token("john")
    refused = johns("POST", "callbacks", {"queue": "a", "url": URL})
    assert (refused.problem, refused.body["right"]) == ((403, "not-allowed"), "manage")
    rules(("john", "GET"), ("john", "MANAGE"))
    made = johns("POST", "callbacks", {"queue": "a", "url": URL})
    assert (made.status, made.body["owner"]) == (201, "john"), made.body
    ask("POST", "callbacks", {"name": "admins", "queue": "a", "url": URL})
    assert [row["name"] for row in johns("GET", "callbacks").body["items"]] == ["callback-1"]
    assert len(ask("GET", "callbacks").body["items"]) == 2
    assert ask("GET", "callbacks?owner=john").body["items"][0]["name"] == "callback-1"
    for method, body in (("GET", None), ("PUT", {"queue": "a", "url": URL}), ("PATCH", {}), ("DELETE", None)):
        assert johns(method, "callbacks/admins", body, if_match="*").problem == (404, "not-found")
    assert johns("POST", "callbacks/admins/rotate").problem == (404, "not-found")
    assert johns("PATCH", "callbacks/callback-1", {"owner": "admin"}, if_match="*").status == 403
    assert johns("PATCH", "callbacks/callback-1", {"desired": "paused"}, if_match="*").status == 200
    assert johns("DELETE", "callbacks/callback-1", if_match="*").status == 204


def test_a_token_with_a_part_of_its_owners_rights_makes_no_callbacks(ask: Ask) -> None:  # noqa: F811
    john()
    grants = [{"rights": ["receive", "manage"], "destinations": [">"]}]
    narrow = by_token("john", grants)
    assert narrow("POST", "callbacks", {"queue": "a", "url": URL}).problem == (403, "not-allowed")
    assert narrow("GET", "callbacks").problem == (403, "not-allowed")


def test_a_secret_that_cannot_be_read_makes_its_callback_unusable_and_no_other(ask: Ask) -> None:  # noqa: F811
    ask("POST", "callbacks", {"name": "good", "queue": "a", "url": URL})
    ask("POST", "callbacks", {"name": "bad", "queue": "a", "url": URL})
    models.Callback.objects.filter(name="bad").update(secret=seal("x")[:-8] + "AAAAAAAA")
    found = callbacks()
    assert found["good"].config_error == ""
    assert "its secret cannot be read" in found["bad"].config_error
    assert reseal() == ["bad"]


def test_pausing_a_callback_of_a_file_is_possible() -> None:
    actions.ensure_admin("administrator")
    spec = {"queue": "a", "url": URL, "owner": "admin"}
    apply(SYSTEM, [Edit("callbacks", "hook", spec, origin="zero.config:3")])
    now = models.Callback.objects.get().values
    assert apply(SYSTEM, [Edit("callbacks", "hook", {**now, "desired": "paused"})]).version is not None
    with pytest.raises(actions.Conflict):
        apply(SYSTEM, [Edit("callbacks", "hook", {**now, "url": "https://other.example.org/"})])
