"""A console whose broker is lost when a mirror takes over, and the page where that is ordered."""

import asyncio
import os
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenPage, sign_in, wait_live
from tests.browser.looks import assert_looks, assert_no_violations
from tests.browser.test_connection import forget_failed_connections
from tests.support.broker_process import BrokerProcess
from tests.support.mirrors import Mirrors, is_followed, mirrors_in, status
from tests.support.polling import poll
from tests.support.postgres import postgres_server
from tests.support.proxy import Proxy
from tests.support.samples import sample

pytestmark = pytest.mark.process

#: a name of the same machine with cookies of its own, as another host has
OTHER_HOST = "localhost"
#: in `make soak` colours are looked at in both themes
EVERY_LOOK = bool(os.environ.get("EVERY_LOOK"))


@pytest.fixture(scope="module")
def journal() -> Iterator[str]:
    with postgres_server() as server:
        yield server.url


@pytest.fixture
def mirrors(processes: None, tmp_path: Path, journal: str) -> Iterator[Mirrors]:
    """Brokers of a name that no other test uses."""
    with mirrors_in(tmp_path, f"B-{tmp_path.name}", journal) as made:
        yield made


@pytest.fixture
def pair(mirrors: Mirrors) -> tuple[BrokerProcess, BrokerProcess]:
    """A main with a message in a queue, and a mirror on another host that is in step."""
    main, mirror = mirrors.make(), mirrors.make("--advertised-host", OTHER_HOST)
    main.start()
    main.request("POST", "/api/v1/queues/kept/messages", b"safe", content_type="text/plain")
    mirror.start(standby=True)
    poll(lambda: is_followed(main))
    return main, mirror


@pytest.fixture
def proxy(pair: tuple[BrokerProcess, BrokerProcess]) -> Iterator[Proxy]:
    """A proxy to the main, in a thread: Playwright has the loop of this one."""
    made = Proxy(pair[0].port)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    asyncio.run_coroutine_threadsafe(made.start(), loop).result(10)
    yield made
    asyncio.run_coroutine_threadsafe(made.close(), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def wait_prepared(page: Page) -> None:
    """The page is live, and has loaded what it needs without its broker."""
    page.wait_for_selector("mom-failover-banner", state="attached")
    wait_live(page)
    page.wait_for_load_state("networkidle")


def kill(main: BrokerProcess) -> None:
    """Afterwards nothing answers at its address."""
    main.kill()


def switch_over(main: BrokerProcess) -> None:
    """Afterwards its address answers 503."""
    assert main.request("POST", f"/api/v1/mirrors/{status(main)['name']}/switchover").status == 202


ENDS = (kill, switch_over)


@pytest.mark.parametrize("end", sample(ENDS, 1))
def test_the_page_of_a_lost_broker_moves_to_the_mirror_that_serves(
    end: Callable[[BrokerProcess], None],
    mirrors: Mirrors,
    pair: tuple[BrokerProcess, BrokerProcess],
    open_page: OpenPage,
    complaints: list[str],
) -> None:
    main, mirror = pair
    page = open_page(main, "/console/queues/?q=kept", sign_in(main))
    wait_prepared(page)
    there = f"http://{OTHER_HOST}:{mirror.port}"
    end(main)
    banner = page.locator("mom-failover-banner")
    expect(banner).to_contain_text(f"{mirrors.name} is now served by {there}")
    expect(banner).to_contain_text("You may have to sign in again")
    link = banner.get_by_role("link", name=there)
    expect(link).to_have_attribute("href", f"{there}/console/queues/?q=kept")

    page.wait_for_url(f"{there}/login/?next=/console/queues/%3Fq%3Dkept")
    page.get_by_label("User name").fill(mirror.user)
    page.get_by_label("Password").fill(mirror.password)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{there}/console/queues/?q=kept")
    expect(page.get_by_role("row", name=re.compile("kept"))).to_contain_text("1")
    wait_live(page)
    forget_failed_connections(complaints)


def test_a_page_with_unsaved_input_stays_and_shows_the_link(
    pair: tuple[BrokerProcess, BrokerProcess], open_page: OpenPage, complaints: list[str]
) -> None:
    main, mirror = pair
    page = open_page(main, "/console/queues/one?name=kept&tab=publish", sign_in(main))
    wait_prepared(page)
    body = page.get_by_role("textbox", name="Body")
    body.fill("not sent yet")
    main.kill()
    banner = page.locator("mom-failover-banner")
    expect(banner).to_contain_text("This page stays here, so that no input is lost")
    expect(banner.get_by_role("link", name=f"http://{OTHER_HOST}:{mirror.port}")).to_be_visible()
    expect(body).to_have_value("not sent yet")
    forget_failed_connections(complaints)


def test_behind_a_proxy_the_page_reconnects_and_reads_its_rows_from_the_mirror(
    mirrors: Mirrors,
    pair: tuple[BrokerProcess, BrokerProcess],
    proxy: Proxy,
    open_page: OpenPage,
    complaints: list[str],
) -> None:
    main, mirror = pair
    address = f"http://{proxy.host}:{proxy.port}/console/queues/one?name=kept&tab=messages"
    main.request(
        "POST", "/api/v1/queues/kept/messages", b"lost", content_type="text/plain", mom_persistent="false"
    )
    page = open_page(main, address, sign_in(main))
    wait_prepared(page)
    rows = page.locator("mom-message-browser tbody tr")
    expect(rows).to_have_count(2)
    page.evaluate("window.whole = true")
    main.kill()
    proxy.target_port = mirror.port
    there = f"http://{OTHER_HOST}:{mirror.port}"
    expect(page.locator("#toasts")).to_contain_text(f"{mirrors.name} is now served by {there}.")
    wait_live(page)
    # A message that was only in the memory of the main is gone from the page, too.
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("safe")
    expect(page.locator("mom-failover-banner .banner")).to_have_count(0)
    assert page.evaluate("window.whole"), "the page was reloaded"
    forget_failed_connections(complaints)


def test_an_administrator_switches_over_on_the_page_of_mirrors_and_goes_on_at_the_mirror(
    mirrors: Mirrors,
    pair: tuple[BrokerProcess, BrokerProcess],
    open_page: OpenPage,
    complaints: list[str],
) -> None:
    main, mirror = pair
    main.request(
        "POST", "/api/v1/queues/kept/messages", b"lost", content_type="text/plain", mom_persistent="false"
    )
    poll(lambda: status(main)["would_be_lost"]["non_persistent"] == 1)
    page = open_page(main, "/console/mirrors/", sign_in(main))
    wait_prepared(page)
    ids = {one["role"]: one["id"] for one in status(main)["brokers"]}
    standby = page.get_by_role("row", name=re.compile(re.escape(ids[-1])))
    expect(standby).to_contain_text("standby")
    expect(page.get_by_label("If the active broker failed now")).to_contain_text("1 non-persistent message")
    assert_looks(page, EVERY_LOOK)

    page.get_by_role("button", name=f"Switch over to {ids[-1]}").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("No persistent message that was confirmed is lost.")
    expect(dialog).to_contain_text("About 1 non-persistent message is lost.")
    dialog.get_by_label(re.compile("^Reason")).fill("a new disk for the main")
    assert_no_violations(page)
    dialog.get_by_role("button", name="Switch over", exact=True).click()
    expect(page.locator("#toasts")).to_contain_text(f"{ids[-1]} takes over.")

    there = f"http://{OTHER_HOST}:{mirror.port}"
    page.wait_for_url(f"{there}/login/?next=/console/mirrors/")
    page.get_by_label("User name").fill(mirror.user)
    page.get_by_label("Password").fill(mirror.password)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{there}/console/mirrors/")
    wait_live(page)
    timeline = page.get_by_role("listitem").filter(has_text="took over from")
    expect(timeline).to_contain_text(f"{ids[-1]} took over from {ids[1]}")
    expect(timeline).to_contain_text("about 1 non-persistent message.")
    # The page is reloaded when the main has become the standby of its mirror.
    expect(page.get_by_role("button", name=f"Switch over to {ids[1]}")).to_be_visible()
    page.get_by_role("link", name="Queues", exact=True).click()
    expect(page.get_by_role("row", name=re.compile("kept"))).to_contain_text("1")
    page.goto(f"{there}/console/audit/")
    order = page.get_by_role("row", name=re.compile("switched over"))
    expect(order).to_contain_text("a new disk for the main")
    forget_failed_connections(complaints)


def test_shutting_a_broker_down_shows_its_mirror_which_then_serves_the_page(
    pair: tuple[BrokerProcess, BrokerProcess], open_page: OpenPage, complaints: list[str]
) -> None:
    main, mirror = pair
    page = open_page(main, "/console/settings/", sign_in(main))
    wait_prepared(page)
    (standby,) = (one["id"] for one in status(main)["brokers"] if one["role"] == -1)
    page.get_by_role("button", name="Shut down…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text(f"The mirror {standby} takes over")
    expect(dialog).to_contain_text("0 messages that are not persistent are lost.")
    dialog.get_by_role("button", name="Shut down", exact=True).click()
    page.wait_for_url(f"http://{OTHER_HOST}:{mirror.port}/login/?next=/console/settings/")
    forget_failed_connections(complaints)
