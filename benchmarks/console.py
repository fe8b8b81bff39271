"""The console in a browser: how soon a page of a very deep queue is there, and what looking into it costs."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from playwright.sync_api import Page, sync_playwright

from benchmarks import machine
from benchmarks.bench import add_output_options, finish, progress, run_or_explain, workplace
from benchmarks.generator import Generator
from benchmarks.servers import Mom

QUEUE = "deep"
SIZE = 100
PAINT_LIMIT_S = 1.0
#: a search stops by itself after 2 s; what is left is for the way to the page and back
SEARCH_LIMIT_S = 2.5
CHROMIUM = "/usr/bin/chromium"
ROWS = "tr.message"


@dataclass(frozen=True, slots=True)
class DeepQueue:
    """Times in seconds, from the click or the address to what is asked for on the screen."""

    count: int
    first_paint_s: float
    rows_s: float
    newest_s: float
    next_page_s: float
    opened_s: float
    search_s: float
    searched: str

    def section(self, place: machine.Machine, version: str) -> str:
        def row(what: str, seconds: float, limit: float) -> str:
            verdict = "pass" if seconds < limit else "**miss**"
            return f"| {what} | {seconds * 1000:,.0f} ms | < {limit * 1000:,.0f} ms | {verdict} |"

        return "\n".join(
            [
                f"## A deep queue in the console, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
                "",
                f"- Machine: {place.line()}",
                f"- MOM {version}; {self.count:,} persistent messages of {SIZE} bytes; Chromium",
                "",
                "| what | measured | promised | |",
                "|---|---|---|---|",
                row("the page's first paint", self.first_paint_s, PAINT_LIMIT_S),
                row("its first 50 messages are there", self.rows_s, PAINT_LIMIT_S),
                row("the newest 50 instead", self.newest_s, PAINT_LIMIT_S),
                row("the next page", self.next_page_s, PAINT_LIMIT_S),
                row("one message opened", self.opened_s, PAINT_LIMIT_S),
                row("a search for what is nowhere has stopped, and says so", self.search_s, SEARCH_LIMIT_S),
                "",
                f"The search: “{self.searched}”",
            ]
        )


def deep_queue(server: Mom, generator: Generator, count: int) -> DeepQueue:
    """Fill a queue, then look into it with a browser that has the console's files in its cache."""
    progress(f"filling with {count:,} messages")
    produce = ["--mode", "produce", "-p", "4", "--dest", f"/queue/{QUEUE}", "--persistent", "1", "--receipts"]
    produce += ["--window", "512", "--size", str(SIZE), "--count", str(count)]
    fill = generator.run([*server.stomp("tcp"), *produce], 120 + count / 2_000)
    progress(f"{fill['confirm_rate']:,.0f}/s; looking into it")
    with signed_in(server) as page:
        address = f"/console/queues/one?name={QUEUE}"
        page.goto(address)
        page.wait_for_selector(ROWS)
        page.goto(address)
        page.wait_for_selector(ROWS)
        painted, shown = page.evaluate(
            "[performance.getEntriesByName('first-contentful-paint')[0].startTime, performance.now()]"
        )
        newest = _timed(page, lambda: page.get_by_role("button", name="Newest").click())
        following = _timed(page, lambda: page.get_by_role("link", name="Older").click())
        began = time.monotonic()
        page.locator(f"{ROWS} button").first.click()
        page.wait_for_selector("mom-message-detail pre.body, mom-message-detail .body")
        opened = time.monotonic() - began
        search = page.get_by_role("searchbox", name="Search messages")
        search.fill("nowhere")
        began = time.monotonic()
        search.press("Enter")
        stopped = page.locator(".notice[role=status]").filter(has_text="stopped")
        stopped.wait_for()
        searched = time.monotonic() - began
        says = stopped.inner_text().partition(" Go on")[0].strip()
    return DeepQueue(count, painted / 1000, shown / 1000, newest, following, opened, searched, says)


def _timed(page: Page, act: Callable[[], None]) -> float:
    """Seconds from an act until another first row is there."""
    first = page.locator(f"{ROWS} button").first.get_attribute("data-id")
    began = time.monotonic()
    act()
    changed = f"id => ![undefined, id].includes(document.querySelector('{ROWS} button')?.dataset.id)"
    page.wait_for_function(changed, arg=first)
    return time.monotonic() - began


@contextmanager
def signed_in(server: Mom) -> Iterator[Page]:
    """A page of the console, for an administrator."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(base_url=f"http://127.0.0.1:{server.ports[0]}")
        page.set_default_timeout(60_000)
        page.goto("/login/")
        page.get_by_label("User name").fill("admin")
        page.get_by_label("Password").fill(server.password)
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url("**/console/**")
        yield page
        browser.close()


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.console", description=__doc__)
    parser.add_argument("--count", type=int, default=10_000_000, help="messages in the deep queue (10000000)")
    add_output_options(parser)
    arguments = parser.parse_args(argv)
    with workplace(arguments.work) as directory:
        generator = Generator.build(directory)
        server = Mom(directory / "mom")
        place = machine.describe(directory)
        progress(f"MOM ready after {server.start():.1f} s")
        try:
            outcome = deep_queue(server, generator, arguments.count)
        finally:
            server.stop()
        section = outcome.section(place, server.version())
    finish(section, arguments.json, {"deep_queue": asdict(outcome), "section": section}, arguments.append)
    return int(outcome.rows_s >= PAINT_LIMIT_S or outcome.search_s >= SEARCH_LIMIT_S)


if __name__ == "__main__":
    sys.exit(run_or_explain(main))
