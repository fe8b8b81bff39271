"""The console with many destinations: the first paint, what tabs cost the browser and the broker.

A real Chromium looks at the list of queues; further tabs are STOMP clients over WebSocket that hear what a
tab hears. While it is measured, messages come to as many queues a second as rows are shown.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import multiprocessing
import os
import shutil
import statistics
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import mom_client
from benchmarks.bench import add_output_options, finish, progress, run_or_explain, workplace
from benchmarks.child import ServerFailed
from benchmarks.servers import Mom

#: what a tab that shows a list of queues hears
MOVED = "$mom.destinations"
HEARD = ("$mom.node", MOVED, "$mom.dest.created", "$mom.dest.deleted")
KINDS, REGIONS = ("orders", "billing", "mail", "plant", "audit"), ("eu", "us", "asia", "latam")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
)
#: what each tab must be told of at least, or the tabs are none
TOLD_A_SECOND = 0.7
TICKS = os.sysconf("SC_CLK_TCK")
#: requests of one kind, and how often it is seen meanwhile whether the broker answers others
REQUESTS, GLANCE_S = 10, 0.001


class Promise(NamedTuple):
    """A figure and its limit."""

    what: str
    measured: float
    most: float
    unit: str

    @property
    def kept(self) -> bool:
        return self.measured < self.most

    @property
    def line(self) -> str:
        verdict = "kept" if self.kept else "**broken**"
        return f"| {self.what} | {self.measured:,.3g} {self.unit} | < {self.most:g} {self.unit} | {verdict} |"


def name_of(number: int) -> str:
    return f"{KINDS[number % 5]}.{REGIONS[number // 5 % 4]}.{number:05}"


# ------------------------------------------------------------------ programs next to the broker


async def _send_to(url: str, password: str, numbers: Sequence[int], every_s: float) -> None:
    async with mom_client.connect(url, login="admin", passcode=password) as client:
        while True:
            began = time.monotonic()
            for start in range(0, len(numbers), 250):
                names = [f"/queue/{name_of(number)}" for number in numbers[start : start + 250]]
                await asyncio.gather(*(client.send(name, b"x" * 100) for name in names))
            if not every_s:
                return
            await asyncio.sleep(max(0.0, began + every_s - time.monotonic()))


def send_to(url: str, password: str, numbers: Sequence[int], every_s: float = 0.0) -> None:
    """A message to each of these queues, once or again and again."""
    asyncio.run(_send_to(url, password, numbers, every_s))


async def _listen(url: str, password: str, tabs: int, ready: Any, fewest: Any) -> None:
    async with contextlib.AsyncExitStack() as stack:
        heard: list[Coroutine[Any, Any, None]] = []
        counts = [0] * tabs
        for tab in range(tabs):
            connected = mom_client.connect(url, login="admin", passcode=password)
            client = await stack.enter_async_context(connected)
            for topic in HEARD:
                subscribed = client.subscribe(f"/topic/{topic}", ack="auto")
                messages = await stack.enter_async_context(subscribed)
                told = (tab, counts, fewest) if topic == MOVED else None
                heard.append(_take_all(messages, told))
        ready.set()
        await asyncio.gather(*heard)


async def _take_all(messages: AsyncIterator[Any], told: tuple[int, list[int], Any] | None) -> None:
    async for _ in messages:
        if told is not None:
            tab, counts, fewest = told
            counts[tab] += 1
            fewest.value = min(counts)


def listen(url: str, password: str, tabs: int, ready: Any, fewest: Any) -> None:
    """So many tabs, without what draws them. `fewest` counts what moved at the tab that heard least of it."""
    asyncio.run(_listen(url, password, tabs, ready, fewest))


@contextlib.contextmanager
def beside(target: Any, *arguments: Any) -> Iterator[None]:
    """Something of our own that runs in a process of its own meanwhile."""
    process = multiprocessing.get_context("spawn").Process(target=target, args=arguments, daemon=True)
    process.start()
    try:
        yield
    finally:
        process.terminate()
        process.join()


# ------------------------------------------------------------------ measuring


def cpu_s(pid: int) -> float:
    """Processor time that a process has used so far, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def share(pid: int, seconds: float) -> float:
    """Percent of a core that a process uses."""
    before, began = cpu_s(pid), time.monotonic()
    time.sleep(seconds)
    return 100 * (cpu_s(pid) - before) / (time.monotonic() - began)


class Rest:
    """Reads from the public API, as the administrator."""

    def __init__(self, server: Mom) -> None:
        self.base = f"http://127.0.0.1:{server.ports[0]}"
        passwords = urllib.request.HTTPPasswordMgrWithPriorAuth()
        passwords.add_password(None, self.base, "admin", server.password, is_authenticated=True)
        self._opener = urllib.request.build_opener(urllib.request.HTTPBasicAuthHandler(passwords))

    def seconds(self, path: str) -> float:
        """The response time."""
        began = time.perf_counter()
        with self._opener.open(f"{self.base}/api/v1/{path}") as reply:
            reply.read()
        return time.perf_counter() - began


def glance_all_the_time(base: str, longest: Any) -> None:
    """Asks for next to nothing again and again: `longest` is the longest that it took, in seconds."""
    while True:
        began = time.perf_counter()
        urllib.request.urlopen(f"{base}/api/v1/health/live").read()
        longest.value = max(longest.value, time.perf_counter() - began)
        time.sleep(GLANCE_S)


class Browser:
    """A Chromium that is signed in; `page` is its one tab."""

    def __init__(self, playwright: Any, server: Mom) -> None:
        path = shutil.which("chromium") or shutil.which("google-chrome")
        if path is None:
            raise ServerFailed("no chromium: the console is measured in Debian's package of that name")
        self._browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        self._session = self._browser.new_browser_cdp_session()
        self.page = self._browser.new_page(
            base_url=f"http://127.0.0.1:{server.ports[0]}", viewport={"width": 1440, "height": 900}
        )
        self.page.goto("/login/")
        self.page.get_by_label("User name").fill("admin")
        self.page.get_by_label("Password").fill(server.password)
        self.page.get_by_role("button", name="Sign in").click()
        self.page.wait_for_url("**/console/**")

    def seconds_to(self, address: str, *selectors: str) -> float:
        """The time from the request of a page until all selectors are on it and painted."""
        began = time.perf_counter()
        self.page.goto(address, wait_until="commit")
        for selector in selectors:
            self.page.wait_for_selector(selector)
        self.page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
        return time.perf_counter() - began

    def cpu_s(self, *kinds: str) -> float:
        """Processor time of its processes of these kinds, in seconds."""
        processes = self._session.send("SystemInfo.getProcessInfo")["processInfo"]
        return float(sum(one["cpuTime"] for one in processes if not kinds or one["type"] in kinds))

    def frames_a_second(self) -> float:
        """Frames per second while the list and the tree are scrolled from end to end."""
        return float(
            self.page.evaluate(
                """async () => {
                    let frames = 0;
                    const list = document.querySelector(".overview");
                    const tree = document.querySelector(".explorer");
                    const began = performance.now();
                    while (performance.now() - began < 2000) {
                        await new Promise(requestAnimationFrame);
                        const part = (performance.now() - began) / 2000;
                        list.scrollTop = part * list.scrollHeight;
                        tree.scrollTop = part * tree.scrollHeight;
                        frames += 1;
                    }
                    return frames / 2;
                }"""
            )
        )

    def close(self) -> None:
        self._browser.close()


def measure(
    directory: Path, queues: int, rows: int, tabs: int, seconds: float
) -> tuple[list[Promise], list[str]]:
    """All of it, on a fresh broker; the promises, and further figures as lines of a table."""
    from playwright.sync_api import sync_playwright

    server = Mom(directory)
    server.start()
    web, stomp = server.ports
    url, ws = f"stomp://127.0.0.1:{stomp}", f"ws://127.0.0.1:{web}/ws"
    try:
        progress(f"a message to each of {queues:,} queues")
        send_to(url, server.password, range(queues))
        promises: list[Promise] = []
        more = _requests(server)
        with sync_playwright() as playwright:
            browser = Browser(playwright, server)
            painted = [
                browser.seconds_to("/console/queues/", ".destinations tbody tr", "mom-branch li summary")
                for _ in range(3)
            ]
            promises.append(
                Promise(
                    f"first paint of list and tree, {queues:,} queues", statistics.median(painted), 1.0, "s"
                )
            )
            browser.page.goto("/console/queues/?rows=1000")
            browser.page.wait_for_selector(f".destinations tbody tr:nth-child({rows})")
            frames = browser.frames_a_second()
            more.append(f"| frames a second while {rows:,} rows and the tree are scrolled | {frames:.0f} |")
            browser.page.goto("about:blank")
            # The first page by name: these are the rows that move.
            moving = sorted(range(queues), key=name_of)[:rows]
            with beside(send_to, url, server.password, moving, 1.0):
                time.sleep(3)
                promises += _shares(server, browser, rows, tabs, seconds, ws, more)
            browser.close()
    finally:
        server.stop()
    return promises, more


def _requests(server: Mom) -> list[str]:
    """Response times of the broker, and of other clients meanwhile: lines of a table."""
    rest = Rest(server)
    longest = multiprocessing.get_context("spawn").Value("d", 0.0)
    with beside(glance_all_the_time, rest.base, longest):
        time.sleep(1.5)
        longest.value = 0.0
        time.sleep(1.0)
        alone, lines = 1000 * longest.value, []
        for path in (
            "queues?limit=100&fields=name,state,depth,in_rate,out_rate,trend",
            "queues?limit=100&sort=-depth",
            "queues?limit=100&state=growing",
            "destinations/tree?kind=queue",
        ):
            longest.value = 0.0
            took = [1000 * rest.seconds(path) for _ in range(REQUESTS)]
            waited = 1000 * longest.value
            lines.append(
                f"| `GET /{path}` | {statistics.median(took):.0f} ms; others waited {waited:.0f} ms at most "
                f"(alone {alone:.0f}) |"
            )
    return lines


def _shares(
    server: Mom, browser: Browser, rows: int, tabs: int, seconds: float, ws: str, more: list[str]
) -> list[Promise]:
    pid = server.pid
    alone = share(pid, seconds)
    browser.page.goto("/console/queues/?rows=1000")
    browser.page.wait_for_selector(f".destinations tbody tr:nth-child({rows})")
    time.sleep(3)
    before, began = (browser.cpu_s("renderer"), browser.cpu_s()), time.monotonic()
    one = share(pid, seconds)
    took = time.monotonic() - began
    renderer = 100 * (browser.cpu_s("renderer") - before[0]) / took
    whole = 100 * (browser.cpu_s() - before[1]) / took
    spawning = multiprocessing.get_context("spawn")
    ready, fewest = spawning.Event(), spawning.Value("i", 0)
    with beside(listen, ws, server.password, tabs - 1, ready, fewest):
        if not ready.wait(60):
            raise ServerFailed(f"{tabs - 1} further tabs could not subscribe")
        time.sleep(2)
        before_tabs, began = fewest.value, time.monotonic()
        all_tabs = share(pid, seconds)
        told = (fewest.value - before_tabs) / (time.monotonic() - began)
    if told < TOLD_A_SECOND:
        raise ServerFailed(
            f"a tab was told what moved {told:.2f} times a second: that measures less than 100 tabs"
        )
    more.append(
        f"| `$mom.destinations` at the slowest of {tabs - 1} further tabs | {told:.2f} times a second |"
    )
    more.append(
        f"| broker without a tab, {rows:,} messages a second to {rows:,} queues | {alone:.1f} % of a core |"
    )
    more.append(f"| browser as a whole, one tab | {whole:.1f} % of a core |")
    return [
        Promise(f"one tab, {rows:,} rows that change each second: its renderer", renderer, 10, "% of a core"),
        Promise("the same: the broker, beyond what it does anyway", one - alone, 2, "% of a core"),
        Promise(f"{tabs} tabs: the broker, beyond what it does anyway", all_tabs - alone, 20, "% of a core"),
    ]


def section(promises: Sequence[Promise], more: Sequence[str], queues: int) -> str:
    """The part of RESULTS.md."""
    now = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    return "\n".join(
        [
            f"## The console, {queues:,} queues, {now}",
            "",
            "| what | measured | promised | |",
            "|---|---|---|---|",
            *(promise.line for promise in promises),
            "",
            "| what else | measured |",
            "|---|---|",
            *more,
            "",
        ]
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="console", description=__doc__)
    parser.add_argument("--queues", type=int, default=10_000)
    parser.add_argument("--rows", type=int, default=1_000)
    parser.add_argument("--tabs", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=8.0, help="of each measurement")
    add_output_options(parser)
    options = parser.parse_args(arguments)
    with workplace(options.work) as directory:
        promises, more = measure(
            directory / "mom", options.queues, options.rows, options.tabs, options.seconds
        )
    text = section(promises, more, options.queues)
    plain = {"promises": [promise._asdict() for promise in promises], "more": list(more)}
    finish(text, options.json, plain, options.append)
    return 0 if all(promise.kept for promise in promises) else 1


if __name__ == "__main__":
    sys.exit(run_or_explain(main))
