"""Every page and every tab, filled with data: no axe violation in any theme or width, nothing that the
browser complains of, no scrolling sideways, no broken words, nothing that moves while it loads.

A third of the pages is walked through, others with each commit; all of them with SOAK=1, as after a change of
what pages have in common. Contrast takes axe longest, so each page shows one theme, and they take turns by
twos; a look of text that an earlier page had is not checked again. In the same way a page loads either at the
width of a desktop or at that of a phone, and then has the other, at which the next page loads: each other
width has all of a page computed and drawn again. With EVERY_LOOK=1, as in `make soak`, each page shows both
themes and loads at both widths, all its text is checked, also on a phone; with PICTURES=FOLDER pictures are
made.

Which pages there are, the console's own addresses say; what each needs to have something to show stands in
QUERIES, and what is no page in NO_PAGES. A new page comes by itself.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from _pytest.mark import ParameterSet
from django.urls import reverse
from playwright.sync_api import Browser, ConsoleMessage, Page, StorageState, ViewportSize, expect

from broker_app.web.console.queues.destination import QueuePage, TopicPage
from broker_app.web.console.urls import urlpatterns
from mom_client import blocking
from tests.browser.conftest import WAIT_MS
from tests.browser.looks import (
    AXE,
    COLOURS,
    DESKTOP,
    NOTE_SHIFTS,
    OUTSIDE_THE_FRAME,
    PHONE,
    THEMES,
    WIDTHS,
    Contrasts,
    Theme,
    assert_cells_have_their_heads,
    assert_fits,
    assert_new_colours,
    assert_no_violations,
    assert_nothing_moved,
    assert_whole,
    mark_visible,
)
from tests.support.broker_process import BrokerProcess
from tests.support.chance import FIRST_SEED
from tests.support.polling import poll
from tests.support.samples import sample

LONG = "orders.with-a-rather-long-name.that.goes.on-and-on.until.it-is-cut"
TOPIC = "prices.of.everything"
#: what follows a page's address; `{connection}` is the id of a client that is there
QUERIES: dict[str, list[str]] = {
    "queues": ["", "?filter=nothing-like-this"],
    "queue": [
        *(f"?name={LONG}&tab={tab}" for tab in QueuePage.tabs),
        "?name=bills&tab=consumers",
        f"?name={LONG}&tab=messages&message={{message}}",
        f"?name={LONG}&tab=messages&tail=on",
    ],
    "job": ["?id={job}"],
    "topic": [f"?name={TOPIC}&tab={tab}" for tab in TopicPage.tabs],
    "connection": ["?id={connection}"],
    "services": ["", "?filter=nothing-like-this"],
    "service": ["?id={service}"],
    "rules-edit": ["?name=johns"],
    "rules-remove": ["?name=johns"],
    "masks-edit": ["?name=cards"],
    "masks-remove": ["?name=cards"],
    "explain": ["", "?user=john&right=send&destination=queue:orders"],
    "users": ["", "?filter=nobody"],
    "users-edit": ["?name=john"],
    "users-remove": ["?name=john", "?name=admin"],
    "groups-edit": ["?name=office"],
    "groups-remove": ["?name=office"],
    "tokens": ["?of=all"],
    "tokens-remove": ["?name=admin/laptop"],
    "brokers-edit": ["?name=other"],
    "brokers-remove": ["?name=other"],
    "bridges-edit": ["?name=west"],
    "bridges-remove": ["?name=west"],
    "bridge": ["?name=west", "?name=nobody"],
    "bridge-test": ["?name=west"],
    "callbacks-edit": ["?name=hook"],
    "callbacks-remove": ["?name=hook"],
    "callback": ["?name=hook"],
    "callback-test": ["?name=hook"],
    "reflexes-edit": ["?name=slow-down"],
    "reflexes-remove": ["?name=slow-down"],
    "reflex": ["?name=slow-down", "?name=off"],
    "orphan-remove": ["?source=/queue/storeAndForward:gone/queue/orders.far"],
    "alerts-edit": ["?name=oldest"],
    "alerts-remove": ["?name=johns"],
    "audit": ["", "?author=nobody"],
    "pipeline": ["?name=archive:mom", "?name=west"],
    "comparison": ["?old=1&new=2"],
    "rollback": ["?to=1"],
    "view-save": ["?address=/console/audit/"],
    "welcome": ["", "?step=2", "?step=3"],
}
EVERY_LOOK = bool(os.environ.get("EVERY_LOOK"))
#: where pictures go; relative to the checkout
PICTURES = os.environ.get("PICTURES")
#: at which pages load; they change places from commit to commit, but not together with the themes
WIDTHS_OF_LOADING = (PHONE, DESKTOP)
FIRST_WIDTH = FIRST_SEED // len(THEMES)
#: files to download, and what leads to a page that is visited
NO_PAGES = {"audit-export", "definitions-file", "reconciliation-report", "reflex-test"}


def places() -> Iterator[str]:
    """Every address of the console that shows a page, and those before it."""
    yield from ("/docs/problems/", "/console/no-such-page", "/console/")
    for pattern in urlpatterns:
        if hasattr(vars(pattern.callback)["view_class"], "get") and pattern.name not in NO_PAGES:
            numbered = ["1"] if pattern.name == "version" else []
            address = reverse(f"console:{pattern.name}", args=numbered)
            yield from (address + query for query in QUERIES.get(str(pattern.name), [""]))


PLACES = list(places())


def in_a_walk(found: Iterable[str]) -> list[ParameterSet]:
    """The pages, each with the theme that it shows and the width at which it loads."""
    return [
        pytest.param(
            place,
            THEMES[(FIRST_SEED + step // 2) % len(THEMES)],
            WIDTHS_OF_LOADING[(FIRST_WIDTH + step) % len(WIDTHS_OF_LOADING)],
            id=place,
        )
        for step, place in enumerate(found)
    ]


@pytest.fixture(scope="module")
def resources(broker: BrokerProcess) -> dict[str, str]:
    """Something of everything on the broker; the ids by which pages name some of it."""

    def ask(method: str, path: str, content: Any = None) -> Any:
        reply = broker.request(method, f"/api/v1/{path}", json_body=content)
        assert reply.status < 300, (path, reply.body)
        return reply.json() if reply.body else None

    for number in range(3):
        body = {"a": [number, None, "x" * 200], "of": {"tenant": "acme"}}
        message = ask("POST", f"queues/{LONG}/messages", body)
    for name in ("orders.new", "orders.dead", "bills"):
        ask("POST", f"queues/{name}/messages", {"n": 1})
    ask("POST", f"topics/{TOPIC}/messages", {"price": 1})
    ask("PUT", "groups/office", {})
    ask("PUT", "users/john", {"password": "the password of john", "groups": ["office"]})
    ask("PUT", "rules/johns", {"conditions": "/event/queue == orders.new", "users": ["john"]})
    ask(
        "PUT",
        "masks/cards",
        {"destination": "/queue/orders.>", "fields": ["/card/number"], "headers": ["iban"]},
    )
    ask("PUT", "brokers/other", {"comment": "the other one"})
    token = ask("POST", "tokens", {"name": "laptop"})
    bridge = {"hostname": broker.host, "port": broker.stomp_port, "user": broker.user}
    ask("PUT", "bridges/west", {**bridge, "password": broker.password, "comment": "to itself"})
    ask("PUT", "bridges/nobody", {"hostname": broker.host, "port": 1})
    callback = {"url": f"{broker.url}/", "queue": "orders.new", "comment": "to a private address"}
    ask("PUT", "callbacks/hook", callback)
    reflex = {"service": LONG, "library": "mom", "function": "limit_rate", "options": {"rate": 1000}}
    ask("PUT", "reflexes/slow-down", {**reflex, "comment": "for all who send too fast"})
    ask(
        "PUT",
        "reflexes/off",
        {"service": "orders.closed", "library": "lib", "function": "check", "enabled": False},
    )
    for name in ("west", "nobody", "gone"):
        ask("POST", f"queues/storeAndForward:{name}/queue/orders.far/messages", {"n": 1})
    service = {"name": "orders.new", "machine": "shop-7", "type": "shop", "events": ["sold"], "lease_s": 3600}
    registered = ask("POST", "services", service)
    ask("POST", "profiles/messages?profile=type%20=%20%27shop%27&max_copies=3", {"news": 1})
    taken = ask("POST", f"queues/{LONG}/receive", {"max": 1})["items"][0]
    ask("POST", f"leases/{quote(taken['receipt'])}/nack", {"dead": True, "reason": "schema v3"})
    ask("PUT", "alerts/rules/johns", {"condition": "oldest", "threshold": 900})
    plan = ask(
        "POST", "jobs", {"op": "move", "source": "orders.dead", "target": "orders.new", "dry_run": True}
    )
    job = ask("POST", "jobs", {"plan": plan["plan"]})
    run = {"job": "archive", "run_id": "1", "host": "spark-1", "parameters": {"destinations": "orders.>"}}
    ask("PUT", "pipeline/runs/archive:mom", run)
    for number in range(20):
        batch = {"number": number, "at": "2026-11-25T12:00:00Z", "rows": number % 7 * 1000, "ms": 350}
        report = {"run_id": "1", "state": "running", "rows": 70_000, "lag": 1234, "lag_s": 2.5}
        ask("POST", "pipeline/runs/archive:mom/report", {**report, "batch": batch})
    for cursor in ("archive:mom", "somebody"):
        ask("PUT", f"pipeline/cursors/{cursor}", {"position": 3})
    ask("PUT", "pipeline/runs/west", {"job": "reconcile", "run_id": "2", "host": "spark-1"})
    lost = {"state": "lost", "message_id": "m-41", "destination": "/queue/orders.far", "origin_position": 41}
    result = {"run_id": "2", "states": {"ok": 7, "lost": 1}, "file": "/srv/lost.ndjson", "rows": [lost]}
    ask("PUT", "pipeline/runs/west/reconciliation", result)
    ask("POST", "pipeline/runs/west/report", {"run_id": "2", "state": "failed", "error": "[DATA_LOSS] gone"})
    poll(lambda: ask("GET", "bridges/west/status")["accepted"] == 1)
    ids = {"token": token, "job": job, "message": message, "service": registered}
    return {name: str(made["id"]) for name, made in ids.items()}


@pytest.fixture(scope="module")
def program(broker: BrokerProcess, resources: dict[str, str]) -> Iterator[None]:
    """A client with a long name that subscribes to the queue, of which it takes nothing, and to the topic."""
    address = f"stomp://{broker.host}:{broker.stomp_port}"
    named = {"client-id": "order-worker-of-the-north-west-1"}
    with (
        blocking.Client(address, login=broker.user, passcode=broker.password, headers=named) as client,
        client.subscribe(f"/queue/{LONG}", selector="tenant = 'nobody at all'"),
        client.subscribe(f"/topic/{TOPIC}"),
    ):
        yield


@pytest.fixture(scope="module")
def window(
    chromium: Browser, broker: BrokerProcess, session: StorageState, resources: dict[str, str], program: None
) -> Iterator[tuple[Page, list[str]]]:
    """One page that walks through all, and what the browser complained of."""
    complaints: list[str] = []

    def note(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            complaints.append(message.text)

    # What moves is drawn again and again, and its colours change meanwhile.
    motion: Any = {} if EVERY_LOOK else {"reduced_motion": "reduce"}
    with chromium.new_context(
        base_url=broker.url, storage_state=session, viewport=DESKTOP, **motion
    ) as context:
        context.set_default_timeout(WAIT_MS)
        context.add_init_script(NOTE_SHIFTS)
        context.add_init_script(AXE)
        page = context.new_page()
        page.on("console", note)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto("/console/connections/")
        connections = broker.request("GET", "/api/v1/connections").json()["items"]
        resources["connection"] = str(connections[0]["id"])
        yield page, complaints


@pytest.fixture(scope="module")
def contrasts() -> dict[Theme, Contrasts]:
    """What this walk has checked."""
    return {theme: Contrasts() for theme in THEMES}


@pytest.mark.parametrize(("place", "theme", "width"), in_a_walk(sample(PLACES, len(PLACES) // 3)))
def test_it_is_accessible_and_fits(
    window: tuple[Page, list[str]],
    resources: dict[str, str],
    contrasts: dict[Theme, Contrasts],
    place: str,
    theme: Theme,
    width: ViewportSize,
) -> None:
    page, complaints = window
    complaints.clear()
    page.emulate_media(color_scheme=theme)
    missing = place == "/console/no-such-page"
    for width_of_loading in WIDTHS_OF_LOADING if EVERY_LOOK else [width]:
        page.set_viewport_size(width_of_loading)
        reply = page.goto(place.format(**resources))
        assert reply is not None and reply.status == (404 if missing else 200)
        settle(page)
        assert_nothing_moved(page)
    whole = place == "/console/"
    if EVERY_LOOK:
        check_every_look(page, place, theme, whole)
    else:
        for at in (width, *(other for other in WIDTHS_OF_LOADING if other != width)):
            page.set_viewport_size(at)
            if at == DESKTOP:
                contrasts[theme].check(page, whole)
            else:
                assert_no_violations(page, *WIDTHS, within="" if whole else OUTSIDE_THE_FRAME)
            assert_fits(page)
            assert_whole(page)
            take_picture(page, place, theme if at == DESKTOP else f"phone.{theme}")
    assert_cells_have_their_heads(page)
    assert complaints == [] or (missing and all("404" in complaint for complaint in complaints))


def check_every_look(page: Page, place: str, theme: Theme, whole: bool) -> None:
    """Fails if a page breaks a rule in either theme or at either width; `theme` is the one that it shows."""
    (other,) = {*THEMES} - {theme}
    within = "" if whole else OUTSIDE_THE_FRAME
    page.set_viewport_size(DESKTOP)
    assert_no_violations(page, within=within)
    assert_fits(page)
    assert_whole(page)
    take_picture(page, place, theme)
    page.emulate_media(color_scheme=other)
    assert_no_violations(page, *COLOURS)
    assert_fits(page)
    take_picture(page, place, other)
    mark_visible(page)
    page.set_viewport_size(PHONE)
    assert_no_violations(page, *WIDTHS, within=within)
    assert_fits(page)
    assert_whole(page)
    take_picture(page, place, f"phone.{other}")
    assert_new_colours(page)
    page.emulate_media(color_scheme=theme)
    assert_new_colours(page)


def take_picture(page: Page, place: str, look: str) -> None:
    """Make a picture of what the page shows, if pictures are asked for."""
    if PICTURES is not None:
        name = re.sub(r"\W+", "-", place).strip("-")[:120]
        page.screenshot(path=Path(PICTURES, f"{name}.{look}.jpeg"), type="jpeg", quality=60)


def settle(page: Page) -> None:
    """Wait until islands have drawn what they were loaded for."""
    if page.locator("mom-live-pill").count():
        page.wait_for_selector("mom-live-pill .pill[data-tone=good]")
    # A predicate in a string would be evaluated again and again, which the page's policy forbids.
    expect(page.locator("main .skeleton:not(article *)")).to_have_count(0)
