"""A real browser for the console: Debian's Chromium, driven by Playwright, on a real broker."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.cookiejar import Cookie
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    StorageState,
    StorageStateCookie,
    expect,
)

from tests.support.broker_process import ROOT, BrokerProcess
from tests.support.chromium import launched
from tests.support.patience import patient

FOLDER = Path(__file__).parent
DIST = ROOT / "static" / "console" / "dist"
#: nothing waits longer than it must
WAIT_MS = patient(30_000)

OpenPage = Callable[..., Page]
#: so many processes of a run share the modules, each with one browser
GROUPS = 3


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Has modules share a browser, whose start takes as much of a processor as several tests do."""
    modules: dict[Path, int] = {}
    for item in items:
        if "chromium" in getattr(item, "fixturenames", ()) and item.path.is_relative_to(FOLDER):
            number = modules.setdefault(item.path, len(modules))
            if item.get_closest_marker("xdist_group") is None:
                item.add_marker(pytest.mark.xdist_group(f"browser-{number % GROUPS}"))


@pytest.fixture(scope="package")
def chromium(processes: None) -> Iterator[Browser]:
    """The browser, for all tests of this folder: none of them brings a loop of its own."""
    with launched() as browser:
        yield browser


@pytest.fixture(scope="session", autouse=True)
def built() -> None:
    """The console must be built before a browser can show it."""
    if not (DIST / "manifest.json").exists():
        pytest.fail("the console is not built: run make build")
    expect.set_options(timeout=WAIT_MS)


@pytest.fixture(scope="module")
def session(broker: BrokerProcess) -> StorageState:
    """The cookies of a signed-in user, once per module."""
    return sign_in(broker)


def sign_in(broker: BrokerProcess) -> StorageState:
    """The cookies of a session of the administrator, by the form but without a browser, which takes a second
    of a processor for it. `test_signing_in` uses the form in one."""
    form = {"username": broker.user, "password": broker.password}
    with httpx.Client(base_url=broker.url, trust_env=False) as client:
        client.get("/login/")
        answer = client.post("/login/", data=form | {"csrfmiddlewaretoken": client.cookies["mom_csrf"]})
        assert answer.status_code == 302, answer.text
        return {"cookies": [_cookie(one) for one in client.cookies.jar], "origins": []}


def _cookie(cookie: Cookie) -> StorageStateCookie:
    """A cookie as browsers are given it."""
    return {
        "name": cookie.name,
        "value": cookie.value or "",
        "domain": cookie.domain,
        "path": cookie.path,
        "expires": cookie.expires or -1,
        "httpOnly": cookie.has_nonstandard_attr("HttpOnly"),
        "secure": cookie.secure,
        "sameSite": "Lax",
    }


@pytest.fixture
def complaints() -> list[str]:
    """Errors, warnings and CSP violations of the page. A test must leave it empty."""
    return []


@pytest.fixture
def open_page(chromium: Browser, complaints: list[str]) -> Iterator[OpenPage]:
    """Opens a page of `broker`: `open_page(broker, "/console/", session, color_scheme="dark")`."""

    def note(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            complaints.append(message.text)

    with ExitStack() as contexts:

        def start(
            broker: BrokerProcess, path: str, session: StorageState | None = None, **options: Any
        ) -> Page:
            context: BrowserContext = chromium.new_context(
                base_url=broker.url, storage_state=session, **options
            )
            contexts.enter_context(context)
            context.set_default_timeout(WAIT_MS)
            page = context.new_page()
            page.on("console", note)
            page.on("pageerror", lambda error: complaints.append(str(error)))
            page.goto(path)
            return page

        yield start
    assert complaints == []


@pytest.fixture
def page(open_page: OpenPage, broker: BrokerProcess, session: StorageState) -> Page:
    """The console, signed in and live."""
    page = open_page(broker, "/console/", session)
    wait_live(page)
    return page


def wait_live(page: Page) -> None:
    page.wait_for_selector("mom-live-pill .pill[data-tone=good]")
