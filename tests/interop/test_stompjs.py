"""@stomp/stompjs, unchanged, in Node and in headless Chromium. The scenarios are in stompjs_scenarios.js."""

from __future__ import annotations

import json
import re
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.support.broker_process import BUILD_COMMANDS, ROOT, BrokerProcess

HERE = Path(__file__).parent
LIBRARY = ROOT / "frontend" / "node_modules" / "@stomp" / "stompjs" / "bundles" / "stomp.umd.js"
SCENARIOS = HERE / "stompjs_scenarios.js"
NAMES = re.findall(r"^    async (\w+)\(StompJs, settings\)", SCENARIOS.read_text(), re.MULTILINE)
VERSIONS = ("1.0", "1.1", "1.2")


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


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", NAMES)
def test_in_node(broker: BrokerProcess, name: str, version: str) -> None:
    command = [
        str(BUILD_COMMANDS / "node"),
        str(HERE / "stompjs_in_node.mjs"),
        str(LIBRARY),
        name,
        json.dumps(settings(broker, version)),
    ]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    assert ended.returncode == 0, ended.stderr


@pytest.fixture(scope="module")
def page(chromium: Browser, broker: BrokerProcess) -> Iterator[Page]:
    """A page of the broker's own origin with stompjs in it."""
    with chromium.new_context(bypass_csp=True) as context:
        page = context.new_page()
        page.goto(f"{broker.url}/login/")
        page.add_script_tag(path=LIBRARY)
        page.add_script_tag(path=SCENARIOS)
        yield page


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", NAMES)
def test_in_chromium(page: Page, broker: BrokerProcess, name: str, version: str) -> None:
    run = "([name, settings]) => runScenario(StompJs, name, settings)"
    assert page.evaluate(run, [name, settings(broker, version)]) == ""
