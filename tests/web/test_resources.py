"""Resources over HTTP: the same guarantees for all of their types."""

import json
import re
from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from django.test import Client

from broker_app.models import Change, PolicyVersion, Rule
from broker_app.net.rest.openapi import said_schema
from broker_app.web import actions
from broker_app.web.api.schemas import _patch, _put, _shown
from broker_app.web.resource_types.bridges import remotes
from tests.support.samples import sample

pytestmark = pytest.mark.django_db

#: a spec of each kind, and a change of it
EXAMPLES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "rules/r1": ({"conditions": '/event/queue == "a"', "users": ["admin"]}, {"effect": "deny"}),
    "masks/cards": (
        {"destination": "/queue/orders.>", "headers": ["iban"]},
        {"fields": ["/card/*"], "groups": []},
    ),
    "users/jane": ({"groups": [], "password": "correct horse battery"}, {"email": "jane@example.org"}),
    "groups/a/b:c": ({}, {}),
    "brokers/b1": ({"endpoints": ["stomp://b1:61613"]}, {"environment": "production"}),
    "bridges/far": ({"hostname": "far.example.org", "password": "s3cret-of-far"}, {"port": 61614}),
    "callbacks/hook": (
        {"url": "https://hooks.example.org/a", "queue": "a", "secret": f"whsec_{'c2Vj' * 8}"},
        {"max_in_flight": 9, "headers": {"X-Team": "shop"}},
    ),
}
CHANGED = {place: change for place, (_, change) in EXAMPLES.items() if change}


class Answer(NamedTuple):
    status: int
    headers: Any
    body: Any

    @property
    def problem(self) -> tuple[int, str]:
        return self.status, self.body["type"].removeprefix("/docs/problems/")

    @property
    def pointers(self) -> list[str]:
        return [error["pointer"] for error in self.body["errors"]]


Ask = Callable[..., Answer]


def asking(client: Client) -> Ask:
    def ask(method: str, path: str, body: Any = None, **headers: str) -> Answer:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        data = b"" if body is None else json.dumps(body)
        reply = client.generic(method, f"/api/v1/{path}", data, "application/json", headers=named)
        return Answer(reply.status_code, reply.headers, json.loads(reply.content) if reply.content else None)

    return ask


@pytest.fixture(autouse=True)
def no_former_guesses() -> None:
    cache.clear()


@pytest.fixture
def ask() -> Ask:
    """Requests of an administrator."""
    actions.ensure_admin("administrator")
    client = Client()
    client.force_login(User.objects.get(username="admin"))
    return asking(client)


def by_token(owner: str, grants: Any = None, name: str = "t") -> Ask:
    """Requests with a token of `owner`."""
    token = actions.create_token(actions.SYSTEM, User.objects.get(username=owner), name, grants=grants)
    return asking(Client(headers={"Authorization": f"Bearer {token.secret}"}))


def john() -> User:
    return actions.create_user(actions.SYSTEM, "john", "correct horse battery")


# ---------------------------------------------------------------------- one resource


@pytest.mark.parametrize("place", EXAMPLES)
def test_a_resource_is_created_read_replaced_changed_and_removed(ask: Ask, place: str) -> None:
    said, change = EXAMPLES[place]
    made = ask("PUT", place, said)
    assert made.status == 201, made.body
    assert made.headers["Location"] == f"/api/v1/{place.replace(':', '%3A')}"
    seen = ask("GET", place)
    assert (seen.status, seen.body) == (200, made.body)
    assert seen.headers["ETag"] == made.headers["ETag"]
    assert (seen.body["name"], seen.body["origin"]) == (place.partition("/")[2], "")
    assert "password" not in seen.body

    changed = ask("PATCH", place, change, if_match=seen.headers["ETag"])
    assert changed.status == 200, changed.body
    assert {name: changed.body[name] for name in change} == change
    replaced = ask("PUT", place, said, if_match=changed.headers["ETag"])
    same = ("version", "changed")
    assert {name: value for name, value in replaced.body.items() if name not in same} == {
        name: value for name, value in seen.body.items() if name not in same
    }
    assert ask("DELETE", place, if_match=replaced.headers["ETag"]).status == 204
    assert ask("GET", place).problem == (404, "not-found")


@pytest.mark.parametrize("place", EXAMPLES)
def test_saving_the_same_resource_makes_no_new_version(ask: Ask, place: str) -> None:
    made = ask("PUT", place, EXAMPLES[place][0])
    number = PolicyVersion.objects.get().number
    again = ask("PUT", place, EXAMPLES[place][0], if_match=made.headers["ETag"])
    assert (again.status, again.body) == (200, made.body)
    # What was read can be sent back as it is.
    assert ask("PUT", place, made.body, if_match=made.headers["ETag"]).body == made.body
    assert PolicyVersion.objects.get().number == number


@pytest.mark.parametrize(
    ("place", "said", "shown"),
    [
        ("bridges/far", {"hostname": "h", "retry_s": "2s"}, {"retry_s": 2}),
        ("callbacks/hook", {**EXAMPLES["callbacks/hook"][0], "max_retry_s": "5m"}, {"max_retry_s": 300}),
        ("alerts/rules/old", {"condition": "oldest", "for_s": "1.5h"}, {"for_s": 5400}),
        (
            "queues/a",
            {"max_bytes": "5MB", "retry_delay_s": "500ms"},
            {"max_bytes": 5_000_000, "retry_delay_s": 0.5},
        ),
        ("brokers/b1", {"settings": {"max_bytes": "1GiB"}}, {"settings": {"max_bytes": 2**30}}),
    ],
)
def test_a_time_or_size_may_be_a_text_with_its_unit_and_is_read_as_a_number(
    ask: Ask, place: str, said: dict[str, Any], shown: dict[str, Any]
) -> None:
    made = ask("PUT", place, said)
    assert made.status == 201, made.body
    found = made.body | made.body.get("settings", {}) if place.startswith("queues") else made.body
    assert {name: found[name] for name in shown} == shown
    number = PolicyVersion.objects.get().number
    assert ask("PUT", place, said, if_match=made.headers["ETag"]).status == 200
    assert PolicyVersion.objects.get().number == number, "the same is no change"


def test_the_description_of_the_api_has_texts_with_units_in_requests_alone() -> None:
    number, text = _put("bridges")["properties"]["retry_s"]["anyOf"]
    assert (number["type"], text["type"]) == ("number", "string")
    assert _patch("bridges")["properties"]["retry_s"]["anyOf"][0]["type"] == ["number", "null"]
    assert _shown("bridges")["properties"]["retry_s"]["type"] == "number"
    assert re.fullmatch(said_schema()["properties"]["max_bytes"]["anyOf"][1]["pattern"], "5MB")


def test_a_text_that_is_no_time_or_size_is_refused_with_an_example(ask: Ask) -> None:
    for place, said, pointer, example in (
        ("bridges/far", {"hostname": "h", "retry_s": "soon"}, "/retry_s", "such as 2s, 5m"),
        ("queues/a", {"max_bytes": "5x"}, "/max_bytes", "such as 65536, 64MB"),
        ("brokers/b1", {"settings": {"max_bytes": "5x"}}, "/settings/max_bytes", "64MB"),
    ):
        refused = ask("PUT", place, said)
        assert (refused.status, refused.pointers) == (400, [pointer]), refused.body
        assert example in refused.body["detail"], refused.body


def test_a_name_may_stand_in_the_query(ask: Ask) -> None:
    assert ask("PUT", "groups?name=..%2Fup", {}).status == 201
    assert ask("GET", "groups?name=..%2Fup").body["name"] == "../up"
    assert ask("DELETE", "groups?name=..%2Fup", if_match="*").status == 204
    assert ask("PUT", "groups", {}).pointers == ["query/name"]
    assert ask("PUT", "groups/a?name=a", {}).pointers == ["query/name"]


def test_null_resets_a_setting(ask: Ask) -> None:
    ask("PUT", "brokers/b", {"settings": {"connect_timeout": 5}, "comment": "x"})
    changed = ask(
        "PATCH", "brokers/b", {"settings": {"connect_timeout": None}, "comment": None}, if_match="*"
    )
    assert changed.status == 200, changed.body
    assert (changed.body["settings"], changed.body["comment"]) == ({}, "")


def test_resources_of_a_file_are_changed_only_there(ask: Ask) -> None:
    by_file = actions.Actor("file", actions.FILE)
    actions.apply(by_file, [actions.Edit("rules", "r", {"users": ["john"]}, origin="zero.config:31")])
    seen = ask("GET", "rules/r")
    assert seen.body["origin"] == "zero.config:31"
    for method in ("PUT", "PATCH", "DELETE"):
        refused = ask(method, "rules/r", {"users": []}, if_match=seen.headers["ETag"])
        assert refused.problem == (409, "conflict")
        assert "zero.config:31" in refused.body["detail"]


# ---------------------------------------------------------------------- conditions


@pytest.mark.parametrize("place", sample(CHANGED, 2))
def test_a_write_without_the_current_version_is_refused(ask: Ask, place: str) -> None:
    said, change = EXAMPLES[place]
    assert ask("PATCH", place, change, if_match="*").problem == (404, "not-found")
    assert ask("DELETE", place, if_match="*").problem == (404, "not-found")
    assert ask("PUT", place, said, if_match='"1"').problem == (412, "precondition-failed")
    first = ask("PUT", place, said, if_none_match="*").headers["ETag"]
    second = ask("PATCH", place, change, if_match=f'"77", {first}').headers["ETag"]
    assert second != first
    for method in ("PUT", "PATCH", "DELETE"):
        assert ask(method, place, said).problem == (428, "precondition-required")
        for tag in (first, f"W/{second}", "2", '""', '"x"', ""):
            stale = ask(method, place, said, if_match=tag)
            assert stale.problem == (412, "precondition-failed")
            assert stale.body["current"].strip('"') == second.strip('"').partition(".")[0]
        assert ask(method, place, said, if_none_match="*").problem == (412, "precondition-failed")
    assert ask("GET", place).headers["ETag"] == second
    assert ask("DELETE", place, if_match="*").status == 204


def test_an_unchanged_resource_is_answered_not_modified(ask: Ask) -> None:
    tag = ask("PUT", "rules/r", {}).headers["ETag"]
    for known in (tag, f'"0", {tag}', f"W/{tag}", "*"):
        reply = ask("GET", "rules/r", if_none_match=known)
        assert (reply.status, reply.body, reply.headers["ETag"]) == (304, None, tag)
    assert ask("GET", "rules/r", if_none_match='"0"').status == 200


def test_a_group_with_a_new_member_is_sent_again_but_can_be_replaced(ask: Ask) -> None:
    tag = ask("PUT", "groups/g", {}).headers["ETag"]
    ask("PUT", "users/jane", {"groups": ["g"]})
    seen = ask("GET", "groups/g", if_none_match=tag)
    assert (seen.status, seen.body["members"]) == (200, ["jane"])
    assert ask("PUT", "groups/g", {}, if_match=tag).status == 200


# ---------------------------------------------------------------------- errors


ERRORS: list[tuple[str, Any, list[str]]] = [
    ("rules/r", {"efect": "deny"}, ["/efect"]),
    ("rules/r", {"effect": "maybe"}, ["/effect"]),
    ("rules/r", {"users": "john"}, ["/users"]),
    ("rules/r", {"position": True}, ["/position"]),
    ("rules/r", {"name": "other"}, ["/name"]),
    ("rules/r?colour=red", {}, ["query/colour"]),
    ("rules/r?dry_run=1", {}, ["query/dry_run"]),
    ("rules/r?dry_run=true&dry_run=true", {}, ["query/dry_run"]),
    ("users/jane", {"password": 1}, ["/password"]),
    ("users/jane", {"groups": ["nowhere"]}, ["/groups"]),
    ("brokers/b", {"settings": {"connect_timout": 1}}, ["/settings/connect_timout"]),
    ("bridges/b", {}, ["/hostname"]),
    ("bridges/b", {"hostname": "h", "port": 0}, ["/port"]),
    ("bridges/b", {"hostname": "a b"}, ["/hostname"]),
    ("bridges/b", {"hostname": "h", "desired": "stopped"}, ["/desired"]),
    ("bridges/b", {"hostname": "h", "protocol": "amqp"}, ["/protocol"]),
    ("bridges/b", {"hostname": "h", "protocol": 1}, ["/protocol"]),
    ("bridges/b", {"hostname": "h", "path": "ws"}, ["/path"]),
    ("bridges/b", {"hostname": "h", "host": ""}, ["/host"]),
    ("bridges/b", {"hostname": "h", "ca_file": "ca.pem"}, ["/ca_file"]),
    ("bridges/b", {"hostname": "h", "window": 0}, ["/window"]),
    ("bridges/b", {"hostname": "h", "stalled_s": 0}, ["/stalled_s"]),
    ("bridges/b", {"hostname": "h", "paused_queues": "orders"}, ["/paused_queues"]),
    ("bridges/b", {"hostname": "h", "paused_queues": ["q" * 80]}, ["/paused_queues"]),
    ("bridges/b", {"hostname": "h", "paused": True}, ["/paused"]),
    ("bridges/b", [], [""]),
    ("bridges/b", "text", [""]),
]


def test_an_error_names_its_field(ask: Ask) -> None:
    for place, said, pointers in ERRORS:
        refused = ask("PUT", place, said)
        assert refused.problem == (400, "invalid"), (place, said)
        assert refused.pointers == pointers, (place, said)
    assert not Change.objects.exclude(author="system").exists()


def test_a_bridge_is_paused_drained_and_resumed_by_its_desired_state(ask: Ask) -> None:
    made = ask("PUT", "bridges/far", {"hostname": "far", "protocol": "wss", "password": "s3cret"})
    assert (made.body["desired"], made.body["port"], made.body["path"]) == ("running", 8000, "/ws")
    for desired in ("paused", "draining", "running"):
        changed = ask("PATCH", "bridges/far", {"desired": desired}, if_match="*")
        assert (changed.status, changed.body["desired"]) == (200, desired)
        assert [row["name"] for row in ask("GET", f"bridges?desired={desired}").body["items"]] == ["far"]
    assert ask("PATCH", "bridges/far", {"paused_queues": ["orders"]}, if_match="*").status == 200
    assert ask("GET", "bridges/far").body["paused_queues"] == ["orders"]


def test_the_error_contains_the_wrong_value_unless_it_is_a_secret(ask: Ask) -> None:
    assert ask("PUT", "bridges/b", {"hostname": "h", "port": 0}).body["errors"][0]["got"] == 0
    assert ask("PUT", "rules/r", {"effect": "maybe"}).body["errors"][0]["got"] == "maybe"
    refused = ask("PUT", "users/jane", {"password": "12345"})
    assert refused.pointers and "12345" not in json.dumps(refused.body)


def test_a_name_misspelt_comes_with_a_suggestion(ask: Ask) -> None:
    assert "did you mean conditions?" in ask("PUT", "rules/r", {"condition": ""}).body["detail"]
    assert "did you mean dry_run?" in ask("PUT", "rules/r?dryrun=true", {}).body["detail"]
    assert "did you mean position?" in ask("GET", "rules?sort=positon").body["detail"]


def test_a_rule_for_an_unknown_user_is_accepted_with_a_warning(ask: Ask, john: User) -> None:
    said = {"users": ["jhon", "john", "anonymous"], "groups": ["nogroup"]}
    warnings = ["there is no user jhon; did you mean john?", "there is no group nogroup"]
    assert ask("PUT", "rules/r?dry_run=true", said).body["warnings"] == warnings
    made = ask("PUT", "rules/r", said)
    assert (made.status, made.body["warnings"]) == (201, warnings)
    assert ask("PUT", "rules/r", {**made.body, "comment": "sent back"}, if_match="*").status == 200
    assert "warnings" not in ask("PATCH", "rules/r", {"users": ["john"], "groups": []}, if_match="*").body


def test_problems_carry_the_trace(ask: Ask) -> None:
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    refused = ask("GET", "rules/none", traceparent=f"00-{trace}-00f067aa0ba902b7-01")
    assert refused.body["trace_id"] == trace
    assert "trace_id" not in ask("GET", "rules/none", traceparent="nonsense").body


# ---------------------------------------------------------------------- trying before


@pytest.mark.parametrize("place", EXAMPLES)
def test_a_dry_run_shows_the_changes_and_changes_nothing(ask: Ask, place: str) -> None:
    said, _ = EXAMPLES[place]
    tried = ask("PUT", f"{place}?dry_run=true", said)
    assert tried.status == 200, tried.body
    [change] = tried.body["changes"]
    kind, _, name = place.partition("/")
    assert (change["kind"], change["name"], change["action"], change["before"]) == (
        kind,
        name,
        "created",
        None,
    )
    assert "password" not in json.dumps(change["after"])
    assert ask("GET", place).status == 404
    assert not Change.objects.filter(author="admin").exists()


def test_a_dry_run_shows_the_difference(ask: Ask) -> None:
    tag = ask("PUT", "bridges/far", {"hostname": "a", "password": "old-s3cret"}).headers["ETag"]
    change = {"hostname": "b", "password": "new-s3cret"}
    tried = ask("PATCH", "bridges/far?dry_run=true", change, if_match=tag).body
    [changed] = tried["changes"]
    assert changed["diff"] == [{"pointer": "/hostname", "before": "a", "after": "b"}]
    assert changed["secrets"] == ["password"]
    assert "s3cret" not in json.dumps(tried)
    gone = ask("DELETE", "bridges/far?dry_run=true", if_match=tag)
    assert (gone.status, gone.body["changes"][0]["action"]) == (200, "removed")
    assert ask("GET", "bridges/far").headers["ETag"] == tag
    same = ask("PATCH", "bridges/far?dry_run=true", {}, if_match=tag).body
    assert (same["version"], same["changes"]) == (None, [])


def test_the_reason_is_kept(ask: Ask) -> None:
    ask("PUT", "rules/r", {}, mom_reason="ticket%204711")
    assert Change.objects.get(author="admin").reason == "ticket 4711"


# ---------------------------------------------------------------------- lists


def test_more_than_a_thousand_rules_come_page_by_page(ask: Ask) -> None:
    Rule.objects.bulk_create(
        Rule(name=f"r{number:04}", position=number // 2, users=["john"] if number % 3 else ["jane"])
        for number in range(1201)
    )
    names: list[str] = []
    path = "rules?limit=500"
    sizes = []
    while path:
        page = ask("GET", path)
        assert page.body["approx_total"] == 1201
        sizes.append(len(page.body["items"]))
        names += [item["name"] for item in page.body["items"]]
        link = page.headers.get("Link")
        assert (link is None) == (page.body["next"] is None)
        path = link.partition(">")[0].removeprefix("</api/v1/") if link else ""
        if len(sizes) == 1:
            Rule.objects.filter(name=names[-1]).delete()  # a page goes on behind what has gone
            Rule.objects.create(name="z", position=5000)
    assert sizes == [500, 500, 202]
    assert names == [*(f"r{number:04}" for number in range(1201)), "z"]


def test_lists_are_filtered_sorted_and_narrowed(ask: Ask) -> None:
    for name, effect, users in (("a", "allow", ["x"]), ("b", "deny", ["x", "y"]), ("c", "deny", [])):
        ask("PUT", f"rules/{name}", {"effect": effect, "users": users})

    def names(query: str) -> list[str]:
        return [item["name"] for item in ask("GET", f"rules?{query}").body["items"]]

    assert names("") == ["a", "b", "c"]
    assert names("sort=-position") == ["c", "b", "a"]
    assert names("sort=-effect,name") == ["b", "c", "a"]
    assert names("effect=deny&user=x") == ["b"]
    assert names("q=c") == ["c"]
    assert ask("GET", "rules?fields=name,effect&limit=1").body["items"] == [{"name": "a", "effect": "allow"}]
    assert [user["name"] for user in ask("GET", "users?administrator=true").body["items"]] == ["admin"]


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=501", "limit=x", "after=x", "sort=users", "fields=colour", "colour=red"]
)
def test_the_error_of_an_invalid_list_query_names_the_parameter(ask: Ask, query: str) -> None:
    assert ask("GET", f"rules?{query}").pointers == [f"query/{query.partition('=')[0]}"]


# ---------------------------------------------------------------------- names that are made up


def test_a_rule_without_a_name_gets_one(ask: Ask) -> None:
    first = ask("POST", "rules", {"users": ["john"]})
    assert (first.status, first.body["name"]) == (201, "rule-1")
    assert first.headers["Location"] == "/api/v1/rules/rule-1"
    assert ask("POST", "rules", {}).body["name"] == "rule-2"
    assert ask("POST", "rules", {"name": "mine"}).body["name"] == "mine"
    assert ask("POST", "rules", {"name": "mine"}).problem == (409, "conflict")
    assert ask("POST", "rules", {"name": 1}).pointers == ["/name"]
    assert ask("POST", "rules/mine", {}).problem == (405, "method-not-allowed")
    tried = ask("POST", "rules?dry_run=true", {})
    assert (tried.status, tried.body["changes"][0]["name"]) == (200, "rule-3")
    assert ask("GET", "rules").body["approx_total"] == 3


# ---------------------------------------------------------------------- who may


#: users see and change their own callbacks
OF_ADMINISTRATORS = [place for place in EXAMPLES if not place.startswith("callbacks/")]


def test_only_administrators_see_and_change(admin: User) -> None:
    john()
    nobody, somebody = asking(Client()), by_token("john")
    places = [*OF_ADMINISTRATORS, "rules", "users", "groups", "brokers", "bridges"]
    for place, method in product(places, ("GET", "PUT", "PATCH", "DELETE")):
        unknown = ask_of(nobody, method, place)
        assert unknown.problem == (401, "not-authenticated"), (method, place)
        assert "WWW-Authenticate" in unknown.headers, (method, place)
        refused = ask_of(somebody, method, place)
        assert refused.problem == (403, "not-allowed"), (method, place)
        assert refused.body["right"] == "administer", (method, place)


def ask_of(ask: Ask, method: str, place: str) -> Answer:
    return ask(method, place, None if method == "GET" else {}, if_match="*")


def test_users_see_themselves(ask: Ask) -> None:
    john()
    somebody = by_token("john")
    assert somebody("GET", "users/john").body["administrator"] is False
    assert somebody("GET", "users/admin").problem == (403, "not-allowed")
    assert somebody("PATCH", "users/john", {"administrator": True}, if_match="*").status == 403


def test_an_administrators_token_needs_the_right_administer(ask: Ask) -> None:
    sends = [{"rights": ["send"], "destinations": [">"]}]
    administers = [{"rights": ["administer"], "destinations": [">"]}]
    assert by_token("admin")("GET", "rules").status == 200
    assert by_token("admin", administers, "a")("GET", "rules").status == 200
    refused = by_token("admin", sends, "s")("GET", "rules")
    assert (refused.problem, refused.body["right"]) == ((403, "not-allowed"), "administer")


# ---------------------------------------------------------------------- tokens

GRANTS = [{"rights": ["send"], "destinations": ["/queue/orders.>"]}]


def test_a_tokens_rights_are_narrowed_and_its_end_is_set(ask: Ask) -> None:
    made = ask("POST", "tokens", {"name": "ci", "grants": GRANTS, "expires": "2199-01-01T00:00:00Z"})
    assert made.status == 201, made.body
    assert made.headers["Location"] == "/api/v1/tokens/admin/ci"
    assert made.body["token"].startswith(made.body["prefix"])
    seen = ask("GET", "tokens/admin/ci")
    assert seen.body == {name: value for name, value in made.body.items() if name != "token"}
    assert ask("GET", f"tokens/{made.body['id']}").body == seen.body
    assert (seen.body["user"], seen.body["grants"], seen.body["last_used"]) == ("admin", GRANTS, None)
    same = ask("PATCH", "tokens/admin/ci", {"expires": "2199-01-01T00:00:00Z"}, if_match="*")
    assert same.headers["ETag"] == seen.headers["ETag"]
    for time in ("never", "9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59", "2199-01-01T00:00:00"):
        wrong = ask("PATCH", "tokens/admin/ci", {"expires": time}, if_match="*")
        assert (wrong.problem, wrong.pointers) == ((400, "invalid"), ["/expires"])
    changed = ask("PATCH", "tokens/admin/ci", {"expires": None}, if_match=seen.headers["ETag"])
    assert changed.body["expires"] is None
    assert ask("PUT", "tokens/admin/ci", {}, if_match="*").problem == (405, "method-not-allowed")


def test_a_dry_run_of_a_token_has_no_secret(ask: Ask) -> None:
    tried = ask("POST", "tokens?dry_run=true", {"name": "ci"})
    assert (tried.status, tried.body["changes"][0]["action"]) == (200, "created")
    assert "mom_" not in json.dumps(tried.body)
    assert ask("GET", "tokens").body["items"] == []


def test_administrators_see_and_end_the_tokens_of_others(ask: Ask) -> None:
    john()
    somebody = by_token("john", name="phone")
    ask("POST", "tokens", {"name": "own"})
    assert ask("POST", "tokens", {"name": "made for him", "user": "john"}).status == 201

    def names(of: Ask, query: str = "") -> list[str]:
        return [f"{item['user']}/{item['name']}" for item in of("GET", f"tokens{query}").body["items"]]

    assert names(ask) == ["admin/own"]
    assert names(ask, "?user=john") == ["john/made for him", "john/phone"]
    assert names(ask, "?user=*") == ["admin/own", "john/made for him", "john/phone"]
    assert names(somebody) == names(somebody, "?user=john") == ["john/made for him", "john/phone"]
    for query in ("?user=*", "?user=admin"):
        assert somebody("GET", f"tokens{query}").problem == (403, "not-allowed")
    assert somebody("POST", "tokens", {"name": "x", "user": "admin"}).problem == (403, "not-allowed")
    assert ask("DELETE", "tokens/john/phone", if_match="*").status == 204
    assert somebody("GET", "tokens").problem == (401, "not-authenticated")


def test_a_narrow_token_sees_itself_and_no_other_token_of_its_owner(ask: Ask) -> None:
    john()
    by_token("john", name="wide")
    narrow = by_token("john", [{"rights": ["browse"], "destinations": ["/queue/zzz"]}], name="narrow")
    assert [row["name"] for row in narrow("GET", "tokens").body["items"]] == ["narrow"]
    assert narrow("GET", "tokens/john/narrow").status == 200
    assert narrow("GET", "tokens/john/wide").problem == (404, "not-found")
    assert "wide" not in json.dumps(narrow("GET", "tokens/john/wyde").body)
    wide = by_token("john", name="other")
    assert [row["name"] for row in wide("GET", "tokens").body["items"]] == ["narrow", "other", "wide"]


def test_a_narrow_token_does_not_make_itself_a_wide_one(ask: Ask) -> None:
    john()
    narrow = by_token("john", GRANTS)
    assert narrow("GET", "tokens").status == 200
    assert narrow("POST", "tokens", {"name": "wide"}).problem == (403, "not-allowed")
    assert narrow("PATCH", "tokens/john/t", {"grants": None}, if_match="*").problem == (403, "not-allowed")
    assert narrow("DELETE", "tokens/john/t", if_match="*").problem == (403, "not-allowed")


# ---------------------------------------------------------------------- bridges


def test_a_bridge_is_cloned_with_its_password(ask: Ask) -> None:
    said = {"hostname": "far", "protocol": "wss", "paused_queues": ["q"], "password": "s3cret-of-far"}
    assert ask("PUT", "bridges/far", said).status == 201
    tried = ask("POST", "bridges/far/clone?dry_run=true", {"name": "near"})
    assert (tried.status, tried.body["changes"][0]["secrets"]) == (200, ["password"])
    made = ask("POST", "bridges/far/clone", {"name": "near"})
    assert (made.status, made.headers["Location"]) == (201, "/api/v1/bridges/near"), made.body
    far = ask("GET", "bridges/far").body
    for name in said.keys() - {"password"}:
        assert made.body[name] == far[name]
    assert "s3cret" not in json.dumps([made.body, tried.body])
    assert remotes()["near"].password == "s3cret-of-far"


def test_a_clone_has_the_requested_differences_from_its_first_version(ask: Ask) -> None:
    said = {"hostname": "far", "window": 5, "comment": "the far one", "password": "s3cret-of-far"}
    assert ask("PUT", "bridges/far", said).status == 201
    differing = {"hostname": "nearer", "window": None, "password": "s3cret-of-near"}
    made = ask("POST", "bridges/far/clone", {"name": "near", **differing})
    assert (made.status, made.body["hostname"], made.body["window"]) == (201, "nearer", 2000), made.body
    assert made.body["comment"] == "the far one"
    assert remotes()["near"].password == "s3cret-of-near"


def test_a_resource_that_cannot_be_cloned_is_reported(ask: Ask) -> None:
    assert ask("PUT", "bridges/far", {"hostname": "far"}).status == 201
    missing = ask("POST", "bridges/fra/clone", {"name": "near"})
    assert missing.problem == (404, "not-found")
    assert "did you mean far?" in missing.body["detail"]
    assert ask("POST", "bridges/far/clone", {"name": "far"}).problem == (409, "conflict")
    assert ask("POST", "bridges/far/clone", {"name": "a/b"}).problem == (400, "invalid")
    assert ask("POST", "bridges/far/clone", {}).pointers == ["/name"]
    assert ask("POST", "bridges/far/clone", {"name": "x", "prot": 1}).pointers == ["/prot"]
    assert ask("POST", "bridges/far/clone", {"name": "x", "port": 0}).pointers == ["/port"]
    assert ask("POST", "bridges/far/clone", {"name": "x", "hostname": None}).pointers == ["/hostname"]


def test_settings_of_a_bridge_are_checked_before_they_are_tested(ask: Ask) -> None:
    for said, pointers in (
        ({}, ["/name"]),
        ({"name": "b"}, ["/hostname"]),
        ({"name": "b", "hostname": "h", "port": 0}, ["/port"]),
        ({"name": "b", "hostname": "h", "prt": 1}, ["/prt"]),
        ({"name": "b", "hostname": "h", "queue": 1}, ["/queue"]),
        ({"name": "b", "hostname": "h", "password": 1}, ["/password"]),
    ):
        refused = ask("POST", "forwarding/test", said)
        assert refused.problem == (400, "invalid"), refused.body
        assert refused.pointers == pointers
    assert ask("POST", "forwarding/test", {"name": "b", "hostname": "h"}).problem == (503, "not-active")
