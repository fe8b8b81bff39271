"""In a production environment, deleting requires the name."""

from urllib.parse import quote

import pytest
from playwright.sync_api import StorageState, expect

from tests.browser.conftest import OpenPage, wait_live
from tests.support.broker_process import BrokerProcess
from tests.support.polling import poll
from tests.support.samples import sample


@pytest.fixture(scope="module", autouse=True)
def production(broker: BrokerProcess) -> None:
    name = broker.request("GET", "/api/v1/stats").json()["node"]["name"]
    made = broker.request("PUT", f"/api/v1/brokers/{name}", json_body={"environment": "Production"})
    assert made.status < 300, made.body


NAMES = ("a-b", "throw-away.q(1)")


@pytest.mark.parametrize("name", sample(NAMES, 1))
def test_a_queue_is_deleted_only_after_its_whole_name_was_typed(
    broker: BrokerProcess, open_page: OpenPage, session: StorageState, complaints: list[str], name: str
) -> None:
    queue = f"/api/v1/queues/{quote(name)}"
    broker.request("POST", f"{queue}/messages", b"kept", content_type="text/plain")
    page = open_page(broker, f"/console/queues/one?name={quote(name)}", session)
    wait_live(page)
    page.get_by_role("button", name="More actions").click()
    page.locator("#more-actions").get_by_role("button", name="Delete…").click()
    dialog = page.get_by_role("dialog")
    delete = dialog.get_by_role("button", name="Delete", exact=True)
    field = dialog.get_by_label("This is a production environment")
    # It would be enabled once the broker has answered what would be deleted.
    expect(dialog.get_by_role("status")).to_have_text("It can be deleted now.")
    expect(delete).to_be_disabled()
    for typed in ("x", name[:-1], name.upper()):
        field.fill(typed)
        field.press("Enter")
        expect(delete).to_be_disabled()
    expect(dialog).to_be_visible()
    assert broker.request("GET", f"{queue}/messages").json()["items"]
    field.fill(name)
    delete.click()
    expect(dialog).to_have_count(0)
    poll(lambda: broker.request("GET", f"{queue}/messages").status == 404)
    # The browser reports that the open page asks for what is gone.
    page.close()
    complaints[:] = [complaint for complaint in complaints if "404" not in complaint]
