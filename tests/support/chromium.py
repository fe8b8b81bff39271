"""A real browser: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.support.missing import missing

if TYPE_CHECKING:  # few tests need a browser, and not each environment has Playwright
    from playwright.sync_api import Browser, BrowserType

#: commands, the first that is there is taken: without toolbars and tabs it costs a third less
BROWSERS = ("chromium-headless-shell", "chromium", "google-chrome")

# It runs as root in containers, and calls no other host.
CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
#: pages of the console live too short for what its second and third compiler do
SHORT_LIVED = "--js-flags=--no-maglev,--no-opt"


@pytest.fixture(scope="module")
def chromium(processes: None) -> Iterator[Browser]:
    """The browser, for one module: Playwright keeps a loop running, which tests that bring their own would
    trip over."""
    with launched() as browser:
        yield browser


@contextmanager
def launched() -> Iterator[Browser]:
    """A browser. Without Chromium: skipped at home, failed in CI."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright, launch(playwright.chromium, SHORT_LIVED) as browser:
        yield browser


def launch(chromium: BrowserType, *flags: str) -> Browser:
    """Start a browser with further flags; as a context it ends. As `launched`, but for Playwright, of which a
    process has one."""
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        missing("the browser tests need Debian's package chromium-headless-shell")
    return chromium.launch(executable_path=path, args=[*CHROMIUM_FLAGS, *flags])
