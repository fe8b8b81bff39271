"""The orders for the broker itself on the page of settings: quiesce, pause, both taken back, and restart."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenPage, sign_in, wait_live
from tests.browser.test_connection import forget_failed_connections
from tests.support.broker_process import BrokerProcess
from tests.support.polling import poll

#: it starts twice in an interpreter of its own
pytestmark = [pytest.mark.process, pytest.mark.timeout(200)]


@pytest.fixture
def restartable(processes: None, tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker that can start itself again, as `mom up` can."""
    broker = BrokerProcess(tmp_path / "data", program=subprocess.Popen)
    broker.command = (sys.executable, "-m", "broker_app.cli", "up")
    broker.start()
    yield broker
    broker.kill()


def order(page: Page, label: str, reason: str = "") -> None:
    """Give the broker an order, by its button and the dialog that says what will happen."""
    page.get_by_role("button", name=f"{label}…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("status")).to_have_text(re.compile("client (is|s are) connected|No client"))
    dialog.get_by_label(re.compile("^Reason")).fill(reason)
    dialog.get_by_role("button", name=label, exact=True).click()
    expect(dialog).to_have_count(0)


def test_the_broker_is_quiesced_paused_taken_back_and_restarted_by_the_buttons(
    restartable: BrokerProcess, open_page: OpenPage, complaints: list[str]
) -> None:
    def shown(member: str) -> object:
        return restartable.request("GET", "/api/v1/broker").json()[member]

    page = open_page(restartable, "/console/settings/", sign_in(restartable))
    wait_live(page)
    state = page.locator("mom-broker-state").get_by_role("status")
    expect(state).to_contain_text("The broker takes and serves clients.")

    order(page, "Quiesce", "new disks")
    expect(state).to_contain_text("The broker is quiesced: it takes no new clients.")
    expect(page.locator("mom-broker-state")).to_contain_text("Quiesced by admin")
    quiesced = shown("quiesced")
    assert isinstance(quiesced, dict) and (quiesced["by"], quiesced["reason"]) == ("admin", "new disks")

    order(page, "Pause", "new network")
    expect(state).to_contain_text("The broker is paused: it serves no clients.")
    assert shown("paused") is not None
    order(page, "Resume")
    expect(state).to_contain_text("The broker is quiesced: it takes no new clients.")
    assert shown("paused") is None
    order(page, "Unquiesce")
    expect(state).to_contain_text("The broker takes and serves clients.")
    assert shown("quiesced") is None

    started_at = shown("started_at")
    order(page, "Restart", "new kernel")
    page.close()  # it tries again and again
    poll(lambda: restartable.log.count("serves at") == 2, 90)
    assert shown("started_at") != started_at
    assert "broker mom: restarts: by admin: new kernel" in restartable.log
    forget_failed_connections(complaints)
