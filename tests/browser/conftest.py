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
    Error,
    Page,
    StorageState,
    StorageStateCookie,
    ViewportSize,
    expect,
)

from tests.support.broker_process import ROOT, BrokerProcess
from tests.support.chromium import launched
from tests.support.patience import patient
from tests.support.plain_http import NO_TLS

FOLDER = Path(__file__).parent
DIST = ROOT / "static" / "console" / "dist"
#: nothing waits longer than it must
WAIT_MS = patient(30_000)

#: the size of pages that no test gives another one
USUAL: ViewportSize = {"width": 1280, "height": 720}

#: a file that takes no time to show, with the origin of the console
EMPTY = "/static/console/mark.svg"

OpenPage = Callable[..., Page]
#: so many processes of a run share the modules, each with one browser
GROUPS = 3


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Has modules share a browser, whose start takes as much of a processor as several tests do. Their tests
    without it have the same broker, so they run in the same process."""
    ours = [item for item in items if item.path.is_relative_to(FOLDER)]
    modules = dict.fromkeys(item.path for item in ours if "chromium" in _fixtures(item))
    groups = {path: f"browser-{number % GROUPS}" for number, path in enumerate(modules)}
    for item in ours:
        shares = not _fixtures(item).isdisjoint({"chromium", "broker"})
        if shares and item.path in groups and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(groups[item.path]))


def _fixtures(item: pytest.Item) -> set[str]:
    return {*getattr(item, "fixturenames", ())}


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
    with httpx.Client(base_url=broker.url, trust_env=False, verify=NO_TLS) as client:
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


class SharedPages:
    """For each broker a page, in a context of the browser, which tests use one after the other.

    A page of its own costs a test twice as much: a process starts, fetches and compiles all scripts again.
    """

    def __init__(self, chromium: Browser) -> None:
        self._chromium = chromium
        self._contexts: dict[str, BrowserContext] = {}

    def page(self, broker: BrokerProcess, session: StorageState | None) -> Page:
        """The page with this session; what the test before has left there is gone, but for cached files."""
        context = self._contexts.get(broker.url) or self._open(broker.url)
        context.clear_cookies()
        if session is not None:
            context.add_cookies(session["cookies"])  # type: ignore[arg-type]
        return context.pages[0] if context.pages else context.new_page()

    def _open(self, url: str) -> BrowserContext:
        context = self._contexts[url] = self._chromium.new_context(base_url=url)

        def forget(_: BrowserContext) -> None:
            del self._contexts[url]

        context.on("close", forget)
        return context

    def leave(self) -> None:
        """End what a test shows: one page of each broker stays, with nothing in it."""
        for context in self._contexts.values():
            for number, page in enumerate(context.pages):
                if number > 0 or not _is_left(page):
                    page.close()

    def close(self) -> None:
        for context in list(self._contexts.values()):
            context.close()


def _is_left(page: Page) -> bool:
    """Have a page forget what a test did with it; returns False if its broker does not answer any more."""
    try:
        page.unroute_all()
        page.goto(EMPTY)
        page.evaluate("localStorage.clear(); sessionStorage.clear()")
        page.emulate_media(color_scheme="null")
    except Error:
        return False
    return True


@pytest.fixture(scope="module")
def shared_pages(chromium: Browser) -> Iterator[SharedPages]:
    pages = SharedPages(chromium)
    yield pages
    pages.close()


@pytest.fixture
def open_page(chromium: Browser, shared_pages: SharedPages, complaints: list[str]) -> Iterator[OpenPage]:
    """Opens a page of `broker`: `open_page(broker, "/console/", session, viewport=PHONE)`. Without
    an address it shows nothing yet.

    The first page of a test is that of the module; others, and those with options of a context, are in a
    context of their own, as other browsers.
    """

    def note(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            complaints.append(message.text)

    def note_error(error: Error) -> None:
        complaints.append(str(error))

    opened: list[Page] = []
    with ExitStack() as contexts:

        def own(broker: BrokerProcess, session: StorageState | None, **options: Any) -> Page:
            context = chromium.new_context(base_url=broker.url, storage_state=session, **options)
            return contexts.enter_context(context).new_page()

        def start(
            broker: BrokerProcess,
            path: str | None,
            session: StorageState | None = None,
            viewport: ViewportSize = USUAL,
            **options: Any,
        ) -> Page:
            if opened or options:
                page = own(broker, session, **options)
            else:
                page = shared_pages.page(broker, session)
            opened.append(page)
            page.set_viewport_size(viewport)
            page.context.set_default_timeout(WAIT_MS)
            page.on("console", note)
            page.on("pageerror", note_error)
            if path is not None:
                page.goto(path)
            return page

        yield start
        for page in opened:
            if not page.is_closed():
                page.mouse.move(0, 0)  # what the page has complained of before is known then
            page.remove_listener("console", note)
            page.remove_listener("pageerror", note_error)
        shared_pages.leave()
    assert complaints == []


@pytest.fixture
def tab(open_page: OpenPage, broker: BrokerProcess, session: StorageState) -> Page:
    """A page that is signed in and shows nothing yet."""
    return open_page(broker, None, session)


@pytest.fixture
def page(tab: Page) -> Page:
    """The console, signed in and live."""
    tab.goto("/console/")
    wait_live(tab)
    return tab


def wait_live(page: Page) -> None:
    page.wait_for_selector("mom-live-pill .pill[data-tone=good]")
