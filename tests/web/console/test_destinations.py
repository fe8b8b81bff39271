"""The server-rendered parts of the pages of a queue or topic."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from broker_app.models import ChangedObject
from broker_app.web import actions
from broker_app.web.actions import SYSTEM, Edit, apply, destination_spec
from tests.web.console.forms import sent

pytestmark = pytest.mark.django_db

SETTINGS = "/console/queues/one?name=orders.new&tab=settings"


def say(address: str, **values: object) -> None:
    apply(SYSTEM, [Edit("destinations", address, values)])


def shown(client: Client, address: str) -> str:
    reply = client.get(address)
    assert reply.status_code == 200
    return reply.content.decode()


def test_a_change_of_settings_is_shown_as_a_difference_before_it_is_saved(inside: Client) -> None:
    say("/queue/orders.new", max_messages=100)
    version = str(actions.version_of("destinations", "/queue/orders.new"))
    fields = {"max_messages": "500", "limit_behavior": "REMOVE_OLDEST", "version": version}
    page = sent(inside, SETTINGS, "preview", **fields)
    assert (
        "<del>100</del>" in page
        and "<ins>500</ins>" in page
        and "<ins>the oldest message is removed</ins>" in page
    )
    spec = destination_spec("/queue/orders.new")
    assert spec is not None and spec.values == {"max_messages": 100}, "nothing is saved yet"
    page = sent(inside, SETTINGS, "save", reason="more is coming", **fields)
    assert "Configuration of orders.new was changed." in page
    spec = destination_spec("/queue/orders.new")
    assert spec is not None and spec.values == {"max_messages": 500, "limit_behavior": "REMOVE_OLDEST"}
    assert "“more is coming”" in shown(inside, SETTINGS)


def test_a_conflict_shows_the_current_values_next_to_the_submitted_ones(inside: Client) -> None:
    say("/queue/orders.new", max_messages=100)
    page = sent(inside, SETTINGS, "save", max_messages="7", version="0")
    assert "changed this while you were editing" in page
    assert "<td>100</td><td>7</td>" in page
    spec = destination_spec("/queue/orders.new")
    assert spec is not None and spec.values == {"max_messages": 100}


def test_in_a_cluster_a_destination_has_a_link_to_its_consumers_at_all_brokers(
    inside: Client, settings: Any
) -> None:
    pages = {
        "/console/queues/one?name=orders.new&tab=connect": "%2Fqueue%2Forders.new",
        "/console/topics/one?name=prices&tab=connect": "%2Ftopic%2Fprices",
    }
    assert not any("/console/cluster/?filter=" in shown(inside, page) for page in pages)
    settings.MOM = replace(settings.MOM, cluster_port=7676)
    for page, destination in pages.items():
        assert f'href="/console/cluster/?filter={destination}#cluster-consumers"' in shown(inside, page)
    pattern = "/console/queues/one?name=orders.%3E&tab=settings"
    assert "/console/cluster/?filter=" not in shown(inside, pattern)


def test_emptied_fields_remove_settings(inside: Client) -> None:
    say("/queue/orders.new", max_messages=100)
    version = str(actions.version_of("destinations", "/queue/orders.new"))
    sent(inside, SETTINGS, "save", version=version)
    assert destination_spec("/queue/orders.new") is None


def test_each_value_is_shown_with_its_source(inside: Client) -> None:
    say(">", max_bytes=1_000_000)
    say("/queue/orders.>", max_attempts=5)
    say("/queue/orders.new", max_messages=100)
    page = shown(inside, SETTINGS)
    assert "<b>1000000</b>" in page and "set for all destinations" in page
    assert "pattern /queue/orders.&gt;" in page and "name=orders.%3E&amp;tab=settings" in page
    assert "<b>100</b>" in page and "set here" in page
    assert "Pattern." in shown(inside, "/console/queues/one?name=orders.%3E&tab=settings")


def test_settings_can_be_edited_as_json_and_errors_are_shown(inside: Client) -> None:
    address = SETTINGS + "&as=json"
    assert "This is not valid JSON" in sent(inside, address, "save", text="{", version="0")
    assert "did you mean max_messages?" in sent(
        inside, address, "save", text='{"max_mesages": 1}', version="0"
    )
    sent(inside, address, "save", text='{"max_messages": 3}', version="0")
    assert "&quot;max_messages&quot;: 3" in shown(inside, address)


def test_other_users_see_settings_read_only(client: Client, john: User) -> None:
    client.force_login(john)
    page = shown(client, SETTINGS)
    assert "Only administrators can change settings." in page and "Preview changes" not in page
    assert client.post(SETTINGS, {"operation": "save", "max_messages": "1"}).status_code == 403
    assert destination_spec("/queue/orders.new") is None


def test_routing_shows_permissions_with_rules_and_dead_letters(
    inside: Client, client: Client, john: User
) -> None:
    rule = {"effect": "allow", "conditions": "/event/queue == orders.new && /event/method == POST"}
    apply(SYSTEM, [Edit("rules", "johns", {**rule, "users": ["john"]})])
    say("/queue/orders.new", dead_letters="graves", max_attempts=3)
    page = shown(inside, "/console/queues/one?name=orders.new&tab=routing")
    assert "an administrator may do everything" in page
    assert "rule 1 (johns)" in page and "no rule allows it" in page
    assert "After 3 failed deliveries" in page and "?name=graves" in page
    assert "?name=orders.new" in shown(inside, "/console/queues/one?name=graves&tab=routing")
    client.force_login(john)
    own = shown(client, "/console/queues/one?name=orders.new&tab=routing")
    assert "rule 1 (johns)" in own and "an administrator may do everything" not in own


def test_users_with_the_same_permissions_are_one_row(inside: Client) -> None:
    names = [f"clerk{number}" for number in range(7)]
    for name in names:
        actions.create_user(SYSTEM, name, "a long password of the office")
    rule = {"effect": "allow", "conditions": "/event/queue == orders.new", "users": names}
    apply(SYSTEM, [Edit("rules", "clerks", rule)])
    page = inside.get("/console/queues/one?name=orders.new&tab=routing")
    rows = [(group.names, group.put.reason) for group in page.context["permissions"]]
    assert rows == [(["admin"], "an administrator may do everything"), (names, "rule 1 (clerks)")]
    text = " ".join(page.content.decode().split())
    assert "clerk3, clerk4<details><summary>2 others</summary>clerk5, clerk6</details>" in text
    assert text.count("rule 1 (clerks)") == 2


def test_changes_of_settings_are_marks_of_the_history(inside: Client) -> None:
    say("/queue/orders.>", max_attempts=5)
    say("/queue/other", max_attempts=6)
    reply = inside.get("/console/queues/one?name=orders.new&tab=history")
    (mark,) = json.loads(reply.context["marks_json"])
    change = ChangedObject.objects.get(key="/queue/orders.>").change
    assert mark["label"] == f"settings created by {change.author}"
    assert mark["time_s"] == change.time.timestamp() and mark["href"].endswith(f"/{change.number}")


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("queues/one?name=/temp-queue/3-answers", "belongs to the connection that created it"),
        ("topics/one?name=$mom.stats", "The broker publishes its own events here"),
        ("queues/one?name=storeAndForwardSyncQueue", "stores the replication offsets"),
        ("queues/one?name=storeAndForward:west/queue/orders", "No bridge to this broker is configured"),
    ],
)
def test_special_destinations_are_explained(inside: Client, address: str, sentence: str) -> None:
    assert sentence in shown(inside, f"/console/{address}")


@pytest.mark.parametrize("query", ["", "?name=", "?name=%20x", "?name=a&tab=nothing", "?name=a%0Ab"])
def test_an_invalid_name_or_tab_is_not_found(inside: Client, query: str) -> None:
    assert inside.get(f"/console/queues/one{query}").status_code == 404
