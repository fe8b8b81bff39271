"""The compressed size of what a browser loads before it shows a page; what is sent for the overview."""

import gzip
import json
import re
from functools import cache
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Request, StorageState

from tests.browser.conftest import DIST, wait_live
from tests.support.broker_process import ROOT, BrokerProcess

CORE_KIB = 30
PAGE_KIB = 80
EDITOR_KIB = 190
#: all that is sent for the overview, with its page, icons, fonts and first values: at first, and once more
FIRST_VISIT_KIB = 80
NEXT_VISIT_KIB = 15

SOURCES = ROOT / "frontend" / "src"
PAGES = sorted((ROOT / "templates" / "console").glob("**/*.html"))
#: loaded by every page once it is drawn, besides the islands of the frame
CONVERSATION = "@stomp/stompjs/esm6/index.js"


@cache
def manifest() -> dict[str, dict[str, list[str]]]:
    found: dict[str, dict[str, list[str]]] = json.loads((DIST / "manifest.json").read_text())
    return found


@cache
def kib(file: str) -> float:
    return len(gzip.compress((DIST / file).read_bytes(), 9)) / 1024


@cache
def modules() -> dict[str, str]:
    """The module of each island, by the name of its element."""
    table = (SOURCES / "elements.ts").read_text()
    shared = dict(re.findall(r'const (\w+) = \(\) => import\("\./([^"]+)"\)', table))
    found = dict(re.findall(r'"(mom-[\w-]+)": \(\) => import\("\./([^"]+)"\)', table))
    found |= {name: shared[way] for name, way in re.findall(r'"(mom-[\w-]+)": (\w+),', table)}
    return {name: f"src/{path}" for name, path in found.items()}


def with_imports(entry: str, known: set[str]) -> set[str]:
    """The entry of the manifest with all that it imports at once."""
    if entry not in manifest():
        # What several import is a chunk with the name of its module; the frame's own modules are one chunk.
        named = {str(chunk.get("name")): key for key, chunk in manifest().items() if key.startswith("_")}
        entry = named.get(Path(entry).stem, named["frame"])
    if entry not in known:
        known.add(entry)
        for imported in manifest()[entry].get("imports", ()):
            with_imports(imported, known)
    return known


def size(*entries: str) -> float:
    known: set[str] = set()
    for entry in entries:
        with_imports(entry, known)
    files = {str(manifest()[name]["file"]) for name in known}
    styles = {style for name in known for style in manifest()[name].get("css", ())}
    return sum(map(kib, files | styles))


def islands_of(text: str, known: set[str]) -> set[str]:
    """Modules of the islands that a page names, and of those that they draw."""
    for name in re.findall(r"<(mom-[\w-]+)", text):
        module = modules().get(name)
        if module is not None and module not in known:
            known.add(module)
            islands_of((ROOT / "frontend" / module).read_text(), known)
    return known


def test_chunks_do_not_import_each_other_in_circles() -> None:
    """Of two that import each other at once, one would run before what it needs is there."""
    order: list[str] = []

    def visit(entry: str, above: tuple[str, ...]) -> None:
        assert entry not in above, " → ".join((*above, entry))
        if entry not in order:
            for imported in manifest()[entry].get("imports", ()):
                visit(imported, (*above, entry))
            order.append(entry)

    for entry in manifest():
        visit(entry, ())


def test_the_entry_of_every_page_is_small() -> None:
    assert size("src/console.ts") <= CORE_KIB


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PAGES[0].parent)))
def test_a_page_with_its_islands_and_styles_stays_within_its_budget(page: Path) -> None:
    frame = (ROOT / "templates" / "console" / "frame.html").read_text()
    islands = islands_of(frame + page.read_text(), set())
    edits = any("editor" in island for island in islands)
    style = "src/style/console.css"
    conversation = next(entry for entry in manifest() if entry.endswith(CONVERSATION))
    whole = size("src/console.ts", style, conversation, *islands)
    assert whole <= (EDITOR_KIB if edits else PAGE_KIB), f"{whole:.1f} KiB"


def test_the_overview_is_sent_in_few_bytes_and_in_fewer_when_it_is_visited_again(
    chromium: Browser, broker: BrokerProcess, session: StorageState
) -> None:
    sent: list[tuple[float, str]] = []

    def note(request: Request) -> None:
        # What comes from the cache has a size below zero.
        sent.append((max(0, request.sizes()["responseBodySize"]) / 1024, request.url))

    with chromium.new_context(base_url=broker.url, storage_state=session) as context:
        for most in (FIRST_VISIT_KIB, NEXT_VISIT_KIB):
            sent.clear()
            page = context.new_page()
            page.on("requestfinished", note)
            page.goto("/console/")
            wait_live(page)
            page.locator("mom-node-charts svg").first.wait_for()
            page.wait_for_load_state("networkidle")
            page.close()
            report = "\n".join(f"{size:6.1f} KiB {url}" for size, url in sorted(sent))
            assert sum(size for size, _ in sent) <= most, report
