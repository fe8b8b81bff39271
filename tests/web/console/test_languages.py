"""The language of pages, and of the API."""

import re

import pytest
from django.template import engines
from django.test import Client
from django.urls import get_resolver
from django.utils import translation

from broker_app.net.policy.destination_settings import SETTINGS
from broker_app.web import languages
from broker_app.web.api.schemas import SECRETS, SPEC_FIELDS
from broker_app.web.console.base.field_words import FieldWords
from broker_app.web.console.base.labels import done

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("forms")]

GERMAN = {"Accept-Language": "de-AT,de;q=0.9,en;q=0.5"}


@pytest.fixture(scope="session")
def forms() -> None:
    """All forms of the console, which have the labels of fields: its addresses import them."""
    get_resolver().check()


def test_a_page_is_in_the_language_of_the_browser(client: Client) -> None:
    german = client.get("/login/", headers=GERMAN)
    assert '<html lang="de"' in german.content.decode() and german["Content-Language"] == "de"
    assert "Accept-Language" in german["Vary"]
    assert '<html lang="en"' in client.get("/login/", headers={"Accept-Language": "fr"}).content.decode()


def test_the_chosen_language_overrides_that_of_the_browser(client: Client) -> None:
    client.cookies["mom_language"] = "en"
    assert '<html lang="en"' in client.get("/login/", headers=GERMAN).content.decode()
    client.cookies["mom_language"] = "de"
    assert '<html lang="de"' in client.get("/login/").content.decode()


def test_a_language_without_a_compiled_catalogue_is_not_used(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(languages, "stamp", lambda language: None)
    assert 'lang="en"' in client.get("/login/", headers=GERMAN).content.decode()


def test_islands_get_their_texts_as_a_cached_script(inside: Client) -> None:
    assert "console/words" not in inside.get("/console/").content.decode()
    page = inside.get("/console/", headers=GERMAN).content.decode()
    found = re.search(r'<script defer src="(/console/words/de/[0-9a-f]+\.js)">', page)
    assert found, "the languages are not built: run make build"
    script = inside.get(found[1])
    assert script["Content-Type"].startswith("text/javascript") and "immutable" in script["Cache-Control"]
    assert '"Cancel": "Abbrechen"' in script.content.decode()
    assert inside.get("/console/words/de/000000000000.js").status_code == 404
    assert inside.get("/console/words/xx/000000000000.js").status_code == 404


def test_numbers_in_a_german_page_are_still_numbers_for_scripts() -> None:
    with translation.override("de"):
        assert engines["django"].from_string("{{ seconds }}").render({"seconds": 1234.5}) == "1234.5"


def test_the_api_is_in_english_for_any_accept_language(inside: Client) -> None:
    for address in ("/api/v1/queues/none", "/api/v1/rules?limit=x", "/docs/problems/"):
        english, german = inside.get(address), inside.get(address, headers=GERMAN)
        trace_id = re.compile(rb'"trace_id": ?"[^"]*"')
        assert trace_id.sub(b"", english.content) == trace_id.sub(b"", german.content)
        assert "Content-Language" not in german and "Accept-Language" not in german.get("Vary", "")
    refused = inside.post("/api/v1/rules", {"kind": "x"}, content_type="application/json", headers=GERMAN)
    same = inside.post("/api/v1/rules", {"kind": "x"}, content_type="application/json")
    assert refused.json() | {"trace_id": ""} == same.json() | {"trace_id": ""} and refused.status_code == 400


def test_the_audit_log_has_german_words_for_actions(inside: Client) -> None:
    page = inside.get("/console/audit/", headers=GERMAN).content.decode()
    assert "Benutzer admin angelegt" in page
    with translation.override("de"):
        assert done("purged") == "geleert"


#: what is the same in both languages
SAME = {
    "Administrator", "Authorization", "Host", "Monitor", "Name", "Position", "Port", "Secret", "Selector",
    "Topic", "URL",
}  # fmt: skip


@pytest.mark.parametrize("kind", [*SPEC_FIELDS, "destinations"])
def test_each_field_of_a_resource_has_a_label_and_a_german_one(kind: str) -> None:
    names = SETTINGS if kind == "destinations" else {**SPEC_FIELDS[kind], **SECRETS.get(kind, {})}
    with translation.override("en"):
        english = {name: FieldWords(kind).label(name) for name in names}
    with translation.override("de"):
        german = {name: FieldWords(kind).label(name) for name in names}
    assert [name for name, label in english.items() if "_" in label or label[:1].islower()] == []
    assert [name for name in names if german[name] == english[name] and german[name] not in SAME] == []


def test_values_are_shown_as_words_and_not_as_keys() -> None:
    with translation.override("en"):
        queue, callback = FieldWords("destinations"), FieldWords("callbacks")
        assert queue.value("limit_behavior", "FLOW_CONTROL") == "producers wait"
        assert queue.value("max_messages", 0) == "no limit"
        assert callback.value("max_retry_s", 3600.0) == "1 h"
        assert callback.value("headers", {"X-Team": "shop"}) == "X-Team: shop"
        assert FieldWords("tokens").value("grants", [{"rights": ["send"]}]) == "Rights: send"
    with translation.override("de"):
        assert queue.value("limit_behavior", "FLOW_CONTROL") == "Sender warten"
        assert callback.value("content", "structured") == "ein JSON-Objekt"


def test_the_form_of_a_queue_and_the_configuration_have_german_sentences(inside: Client) -> None:
    for address in ("queues/one?name=orders&tab=settings", "configuration/"):
        page = inside.get(f"/console/{address}", headers=GERMAN).content.decode()
        assert "Sender warten" in page and "FLOW_CONTROL</" not in page
        assert "Zustellversuche, nach denen eine Nachricht unzustellbar ist" in page
