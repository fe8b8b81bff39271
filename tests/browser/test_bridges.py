"""The pages of bridges, in a real browser, between two real brokers."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import StorageState, expect

from tests.browser.conftest import OpenPage
from tests.support.broker_process import BrokerProcess
from tests.support.polling import poll

ONE = "/console/bridges/one?name=west"


@pytest.fixture(scope="module")
def west(broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A second broker. The first has a bridge to it, one to an unused address, and an orphan."""
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


def put(broker: BrokerProcess, name: str, value: dict[str, object]) -> None:
    assert broker.request("PUT", f"/api/v1/bridges/{name}", json_body=value).status == 201


def send(broker: BrokerProcess, bridge: str, queue: str) -> None:
    path = f"/api/v1/queues/storeAndForward:{bridge}/queue/{queue}/messages"
    assert broker.request("POST", path, b"a bolt").status == 201


def status(broker: BrokerProcess, name: str) -> dict[str, object]:
    found: dict[str, object] = broker.request("GET", f"/api/v1/bridges/{name}/status").json()
    return found


def test_a_bridge_is_paused_fixed_and_resumed_on_a_live_page(
    open_page: OpenPage, broker: BrokerProcess, west: BrokerProcess, session: StorageState
) -> None:
    page = open_page(broker, "/console/bridges/", session)
    expect(page.get_by_role("row", name="nobody")).to_contain_text("REFUSED")
    page.get_by_role("link", name="nobody", exact=True).click()
    state = page.get_by_label("State")
    expect(state).to_contain_text("retrying")

    expect(page.locator("mom-confirm-form:defined").first).to_be_attached()
    page.get_by_role("button", name="Pause", exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Its backlog (1) is kept")
    dialog.get_by_label("Reason").fill("its port is wrong")
    dialog.get_by_role("button", name="Pause").click()
    expect(state).to_contain_text("paused")
    page.get_by_role("link", name="Edit").click()
    for field, value in {"Port": str(west.stomp_port), "User": west.user, "Password": west.password}.items():
        page.get_by_label(field, exact=True).fill(value)
    page.get_by_role("button", name="Save").click()
    page.get_by_role("button", name="Resume", exact=True).click()
    # The page updates itself.
    expect(page.get_by_role("row", name="orders")).to_contain_text("1 accepted")
    expect(state).to_contain_text("running")
    send(broker, "nobody", "orders")
    expect(page.get_by_role("row", name="orders")).to_contain_text("2 accepted")
    page.get_by_role("button", name="Pause the flow to orders").click()
    expect(page.get_by_role("row", name="orders")).to_contain_text("paused")
    expect(page.get_by_role("button", name="Undo")).to_be_visible()


def test_a_new_bridge_is_tested_before_anything_is_saved(
    open_page: OpenPage, broker: BrokerProcess, west: BrokerProcess, session: StorageState
) -> None:
    page = open_page(broker, "/console/bridges/add?name=north", session)
    go_on = page.get_by_role("button", name="Next")
    expect(page.get_by_label("Name of the bridge")).to_have_value("north")
    go_on.click()
    page.get_by_label("Host", exact=True).fill(west.host)
    page.get_by_label("Port", exact=True).fill(str(west.stomp_port))
    go_on.click()
    page.get_by_label("User", exact=True).fill(west.user)
    page.get_by_label("Password", exact=True).fill("a guess")
    go_on.click()
    test = page.get_by_label("Connection test")
    expect(test).to_contain_text("The connection does not work")
    expect(test).to_contain_text("Correct user and password")
    page.get_by_role("button", name="Log in").click()
    page.get_by_label("Password", exact=True).fill(west.password)
    go_on.click()
    expect(test).to_contain_text("The connection works")
    go_on.click()
    preview = page.get_by_label("Preview", exact=True)
    expect(preview).to_contain_text("/config/connection/messaging/north = {")
    expect(preview).not_to_contain_text(west.password)
    assert broker.request("GET", "/api/v1/bridges/north").status == 404, "nothing is saved yet"
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("heading", name="Bridge north", exact=True)).to_be_visible()

    page.get_by_label("permission to send to the queue").fill("orders")
    page.get_by_role("button", name="Test", exact=True).click()
    expect(test).to_contain_text(f"{west.user} may send to orders")
    page.get_by_label("Clone this bridge as").fill("north2")
    page.get_by_role("button", name="Clone bridge").click()
    expect(page.get_by_label("desired")).to_have_value("paused")
    page.get_by_role("link", name="Remove…").click()
    page.get_by_role("button", name="Remove").click()
    expect(page.get_by_role("row", name="north2")).to_have_count(0)


@pytest.mark.usefixtures("west")
def test_without_javascript_the_pages_are_the_same(
    open_page: OpenPage, broker: BrokerProcess, session: StorageState
) -> None:
    page = open_page(broker, ONE, session, java_script_enabled=False)
    expect(page.get_by_role("row", name="orders")).to_contain_text("accepted")
    page.get_by_role("button", name="Retry now").click()
    expect(page.get_by_text("The bridge is retrying now.")).to_be_visible()


@pytest.mark.usefixtures("broker")
def test_replication_offsets_are_reassigned_and_deleted(
    open_page: OpenPage, west: BrokerProcess, broker: BrokerProcess
) -> None:
    pause = {"desired": "paused"}
    assert broker.request("PATCH", "/api/v1/bridges/west", json_body=pause, if_match="*").status == 200
    user = {"password": "the password of john"}
    assert west.request("PUT", "/api/v1/users/john", json_body=user).status == 201
    page = open_page(west, west.login_link())
    page.goto("/console/bridges/")
    mark = page.get_by_role("table", name="Replication offsets of other brokers").get_by_role(
        "row", name="west"
    )
    expect(mark).to_contain_text("mom~")
    mark.get_by_role("button", name="Reassign offset").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("New user").fill("john")
    dialog.get_by_role("button", name="Reassign offset").click()
    expect(mark).to_contain_text("john")
    mark.get_by_role("button", name="Delete offset").click()
    dialog.get_by_role("button", name="Delete offset").click()
    expect(mark).to_have_count(0)
