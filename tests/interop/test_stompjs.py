"""@stomp/stompjs, unchanged, in Node and in headless Chromium. The scenarios are in stompjs_scenarios.js."""

from __future__ import annotations

import json
import re
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.support.broker_process import BUILD_COMMANDS, ROOT, BrokerProcess
from tests.support.samples import sample

HERE = Path(__file__).parent
LIBRARY = ROOT / "frontend" / "node_modules" / "@stomp" / "stompjs" / "bundles" / "stomp.umd.js"
SCENARIOS = HERE / "stompjs_scenarios.js"
NAMES = re.findall(r"^    async (\w+)\(StompJs, settings\)", SCENARIOS.read_text(), re.MULTILINE)
VERSIONS = ("1.0", "1.1", "1.2")
ALL = [(name, version) for name in NAMES for version in VERSIONS]
CASES = sample(ALL, len(ALL) // 3)
#: a scenario, by its name and settings; returns its failure, which is empty if there was none
RunScenario = Callable[[str, dict[str, str]], str]


def settings(broker: BrokerProcess, version: str) -> dict[str, str]:
    return {
        "url": f"ws://{broker.host}:{broker.port}/ws",
        "login": broker.user,
        "passcode": broker.password,
        "version": version,
        "unique": uuid.uuid4().hex,
    }


def test_the_scenarios_are_found() -> None:
    assert len(NAMES) > 15


@pytest.fixture(scope="module")
def node(processes: None) -> Iterator[RunScenario]:
    """Runs a scenario in Node, whose start takes longer than most of them; returns its failure."""
    command = [str(BUILD_COMMANDS / "node"), str(HERE / "stompjs_in_node.mjs"), str(LIBRARY)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        orders, answers = process.stdin, process.stdout
        assert orders is not None and answers is not None

        def run(name: str, settings: dict[str, str]) -> str:
            orders.write(json.dumps([name, settings]) + "\n")
            orders.flush()
            return str(json.loads(answers.readline()))

        yield run


@pytest.mark.parametrize(("name", "version"), CASES)
def test_in_node(node: RunScenario, broker: BrokerProcess, name: str, version: str) -> None:
    assert node(name, settings(broker, version)) == ""


@pytest.fixture(scope="module")
def page(chromium: Browser, broker: BrokerProcess) -> Iterator[Page]:
    """A page of the broker's own origin with stompjs in it."""
    with chromium.new_context(bypass_csp=True) as context:
        page = context.new_page()
        page.goto(f"{broker.url}/login/")
        page.add_script_tag(path=LIBRARY)
        page.add_script_tag(path=SCENARIOS)
        yield page


@pytest.mark.parametrize(("name", "version"), CASES)
def test_in_chromium(page: Page, broker: BrokerProcess, name: str, version: str) -> None:
    run = "([name, settings]) => runScenario(StompJs, name, settings)"
    assert page.evaluate(run, [name, settings(broker, version)]) == ""
