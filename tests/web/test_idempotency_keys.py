"""Requests with an Idempotency-Key: what is repeated is done once and answered alike."""

import base64
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from django.db import connection
from django.test import Client

from broker_app.models import KeptAnswer, Rule, Token
from broker_app.web import actions
from broker_app.web.actions import answers

ADMIN = "Basic " + base64.b64encode(b"admin:administrator").decode()
JANE = "Basic " + base64.b64encode(b"jane:correct horse battery").decode()


@pytest.fixture(autouse=True)
def admin(transactional_db: None) -> None:
    cache.clear()
    actions.ensure_admin("administrator")


def post(path: str, body: Any, key: str, who: str = ADMIN) -> Any:
    headers = {"Idempotency-Key": key, "Authorization": who}
    return Client(headers=headers).post(f"/api/v1/{path}", body, content_type="application/json")


def problem(reply: Any) -> tuple[int, str]:
    return reply.status_code, json.loads(reply.content)["type"].removeprefix("/docs/problems/")


def test_a_repeat_gets_the_answer_of_the_first() -> None:
    first = post("rules", {"users": ["john"]}, "k1")
    assert first.status_code == 201 and "Idempotency-Replayed" not in first.headers
    for key in ("k1", '"k1"'):
        again = post("rules", {"users": ["john"]}, key)
        assert (again.status_code, again.content) == (201, first.content)
        assert again["Idempotency-Replayed"] == "true"
        assert (again["Location"], again["ETag"]) == (first["Location"], first["ETag"])
    assert Rule.objects.count() == 1


@pytest.mark.parametrize(
    ("path", "body"), [("rules", {"users": ["jane"]}), ("rules?dry_run=false", {}), ("tokens", {})]
)
def test_another_request_needs_another_key(path: str, body: dict[str, Any]) -> None:
    post("rules", {}, "k")
    assert problem(post(path, body, "k")) == (422, "idempotency-mismatch")


def test_a_refused_request_may_be_repeated_with_the_same_key() -> None:
    assert post("rules", {"effect": "maybe"}, "k").status_code == 400
    assert post("rules", {"effect": "deny"}, "k").status_code == 201


def test_a_dry_run_uses_no_key() -> None:
    assert post("rules?dry_run=true", {}, "k").status_code == 200
    assert post("rules", {}, "k").status_code == 201


def test_keys_belong_to_their_user() -> None:
    jane = actions.create_user(actions.SYSTEM, "jane", "correct horse battery")
    User.objects.filter(pk=jane.pk).update(is_superuser=True)
    assert post("rules", {}, "k").status_code == post("rules", {}, "k", JANE).status_code == 201
    assert Rule.objects.count() == 2


@pytest.mark.parametrize("key", ["", "x" * 256, "ü", "a b", '"', "a\x00"])
def test_an_invalid_key_is_reported(key: str) -> None:
    reply = post("rules", {}, key)
    assert problem(reply) == (400, "invalid")
    assert json.loads(reply.content)["errors"][0]["pointer"] == "header/Idempotency-Key"


def test_the_secret_of_a_token_is_not_kept() -> None:
    first = post("tokens", {"name": "ci"}, "k")
    secret = json.loads(first.content)["token"]
    again = post("tokens", {"name": "ci"}, "k")
    assert problem(again) == (409, "conflict")
    assert json.loads(again.content)["made"] == "/api/v1/tokens/admin/ci"
    assert Token.objects.count() == 1
    kept = KeptAnswer.objects.values().get()
    assert secret not in repr(kept) and kept["body"] is None


def test_many_at_once_are_one() -> None:
    together = threading.Barrier(8)

    def send(_: int) -> int:
        together.wait()
        try:
            return int(post("rules", {"users": ["john"]}, "k").status_code)
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        statuses = list(pool.map(send, range(8)))
    assert set(statuses) <= {201, 409} and 201 in statuses
    assert Rule.objects.count() == 1


def test_a_running_request_is_reported_until_it_is_abandoned() -> None:
    first = post("rules", {}, "k")
    KeptAnswer.objects.update(status=None)
    running = post("rules", {}, "k")
    assert problem(running) == (409, "conflict") and running["Retry-After"] == "1"
    KeptAnswer.objects.update(created=KeptAnswer.objects.get().created - answers.ABANDONED)
    assert post("rules", {}, "k").content != first.content
    assert Rule.objects.count() == 2


def test_a_day_later_a_key_is_new() -> None:
    post("rules", {}, "k")
    KeptAnswer.objects.update(created=KeptAnswer.objects.get().created - timedelta(hours=24))
    assert "Idempotency-Replayed" not in post("rules", {}, "k").headers
    assert KeptAnswer.objects.count() == 1


def test_the_oldest_answers_of_a_user_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "MOST", 2)
    for key in ("a", "b", "c"):
        post("rules", {}, key)
    assert list(KeptAnswer.objects.values_list("key", flat=True)) == ["b", "c"]
