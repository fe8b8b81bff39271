"""The pages of bridges, in a real browser, between two real brokers."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import StorageState, expect

from tests.browser.conftest import OpenPage
from tests.browser.looks import assert_no_violations
from tests.support.broker_process import BrokerProcess
from tests.support.polling import poll

ONE = "/console/bridges/one?name=west"


@pytest.fixture(scope="module")
def west(broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A second broker. The first has a bridge to it, one to nobody, and a queue without a bridge."""
    other = BrokerProcess(tmp_path_factory.mktemp("west") / "data", environment={"MOM_NAME": "west"})
    other.start()
    bridge = {
        "hostname": other.host, "port": other.stomp_port, "user": other.user, "password": other.password,
        "comment": "to the west",
    }  # fmt: skip
    put(broker, "west", bridge)
    put(broker, "nobody", {"hostname": other.host, "port": 1})
    for name in ("west", "nobody", "gone"):
        send(broker, name, "orders")
    poll(lambda: status(broker, "west")["accepted"] == 1)
    poll(lambda: status(broker, "nobody")["state"] == "retrying")
    yield other
    other.kill()


def put(broker: BrokerProcess, name: str, said: dict[str, object]) -> None:
    assert broker.request("PUT", f"/api/v1/bridges/{name}", json_body=said).status == 201


def send(broker: BrokerProcess, bridge: str, queue: str) -> None:
    path = f"/api/v1/queues/storeAndForward:{bridge}/queue/{queue}/messages"
    assert broker.request("POST", path, b"a bolt").status == 201


def status(broker: BrokerProcess, name: str) -> dict[str, object]:
    found: dict[str, object] = broker.request("GET", f"/api/v1/bridges/{name}/status").json()
    return found


def test_a_bridge_is_tested_paused_resumed_cloned_and_drained(
    open_page: OpenPage, broker: BrokerProcess, west: BrokerProcess, session: StorageState
) -> None:
    page = open_page(broker, "/console/bridges/", session)
    expect(page.get_by_role("row", name="nobody")).to_contain_text("REFUSED")
    page.get_by_role("link", name="west", exact=True).click()
    expect(page.get_by_role("row", name="orders")).to_contain_text("1 accepted")
    page.get_by_label("and the right to queue").fill("orders")
    page.get_by_role("button", name="Test", exact=True).click()
    expect(page.get_by_label("Test of the connection")).to_contain_text("The connection works")
    assert_no_violations(page)

    page.get_by_role("button", name="Pause the flow to orders").click()
    expect(page.get_by_role("row", name="orders")).to_contain_text("paused")
    send(broker, "west", "orders")
    page.get_by_role("link", name="Refresh").click()
    expect(page.get_by_role("row", name="orders").get_by_role("cell").nth(1)).to_have_text("1")
    page.get_by_role("button", name="Resume the flow to orders").click()
    poll(lambda: status(broker, "west")["accepted"] == 2)

    page.get_by_role("button", name="Drain").click()
    expect(page.get_by_label("State")).to_contain_text("drain")
    page.get_by_role("button", name="Resume", exact=True).click()
    expect(page.get_by_role("button", name="Drain")).to_be_visible()
    page.get_by_label("Another one like this").fill("west2")
    page.get_by_role("button", name="Clone").click()
    expect(page.get_by_label("desired")).to_have_value("paused")
    page.get_by_role("link", name="Remove…").click()
    page.get_by_role("button", name="Remove").click()
    expect(page.get_by_role("row", name="west2")).to_have_count(0)


@pytest.mark.usefixtures("west")
def test_without_javascript_the_pages_are_the_same(
    open_page: OpenPage, broker: BrokerProcess, session: StorageState
) -> None:
    page = open_page(broker, ONE, session, java_script_enabled=False)
    expect(page.get_by_role("row", name="orders")).to_contain_text("accepted")
    page.get_by_role("button", name="Retry now").click()
    expect(page.get_by_role("status")).to_contain_text("It tries again now.")


@pytest.mark.usefixtures("broker")
def test_the_other_broker_shows_what_is_forwarded_to_it(
    open_page: OpenPage, west: BrokerProcess, broker: BrokerProcess
) -> None:
    page = open_page(west, west.login_link())
    page.goto("/console/bridges/")
    marks = page.get_by_role("table", name="Marks of other brokers")
    expect(marks.get_by_role("row").nth(1)).to_contain_text("mom~")
    assert_no_violations(page)
