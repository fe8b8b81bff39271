"""The pages that configure a broker: their workflows, in a real browser on a real broker."""

import base64
import re
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, StorageState, expect

from tests.browser.conftest import OpenPage, sign_in
from tests.browser.looks import DESKTOP, PHONE, Contrasts
from tests.support.broker_process import BrokerProcess, StartBroker
from tests.support.polling import poll

PASSWORD = "the password of john"

Send = Callable[[str], int]


@pytest.fixture(scope="module", autouse=True)
def john(broker: BrokerProcess) -> None:
    document = {"password": PASSWORD}
    assert broker.request("PUT", "/api/v1/users/john", json_body=document, if_none_match="*").status == 201


@pytest.fixture
def send(broker: BrokerProcess) -> Send:
    """Sends to a queue as john; the status of the reply."""
    login = base64.b64encode(f"john:{PASSWORD}".encode()).decode()
    return lambda queue: status_of(broker, queue, f"Basic {login}")


def status_of(broker: BrokerProcess, queue: str, authorization: str) -> int:
    url = f"{broker.url}/api/v1/queues/{queue}/messages"
    request = urllib.request.Request(url, b"hello", {"authorization": authorization}, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def save(page: Page) -> None:
    """Saves a form, and waits until that was answered: only the page's main part is exchanged."""
    with page.expect_response(lambda reply: "operation=save" in (reply.request.post_data or "")):
        page.get_by_role("button", name="Save").click()


def editor(page: Page, label: str) -> Locator:
    """The input of an editor; the plain field is there before it, under the same label."""
    return page.locator(f'.cm-content[aria-label="{label}"]')


def write(page: Page, label: str, text: str) -> None:
    """Types a text over what an editor holds."""
    editor(page, label).click()
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.insert_text(text)


def add_rule(page: Page, name: str, conditions: str, users: str) -> None:
    page.goto("/console/rules/add")
    page.get_by_label("Name of the rule").fill(name)
    write(page, "Conditions", conditions)
    write(page, "Users", users)
    save(page)


def remove(page: Page) -> None:
    """Confirms a removal, and waits until it is done: what is left behind is in the way of other tests."""
    page.get_by_role("button", name="Remove").click()
    expect(page.locator(".toast")).to_contain_text("was removed")


def test_a_rule_is_explained_changed_with_its_impact_and_undone(
    open_page: OpenPage, broker: BrokerProcess, session: StorageState, send: Send
) -> None:
    page = open_page(broker, "/console/rules/", session, viewport=DESKTOP)
    add_rule(page, "johns", "/event/queue == orders", "john")
    expect(page.locator(".toast")).to_contain_text("was created")
    assert [send("orders"), send("bills")] == [201, 403]

    page.get_by_text("Explain access…").click()
    page.get_by_label("User", exact=True).fill("john")
    page.get_by_label("Destination").fill("queue:bills")
    page.get_by_role("button", name="Explain access").click()
    answer = page.get_by_label("Explanation")
    expect(answer).to_contain_text("Denied: no rule allows it")
    expect(answer).to_contain_text("the queue differs: it is bills, the rule wants orders")

    answer.get_by_role("link", name="johns").click()
    conditions, preview = editor(page, "Conditions"), page.get_by_label("Preview")
    write(page, "Conditions", "/event/queu == bills")
    expect(preview).to_contain_text("did you mean /event/queue?")
    expect(page.locator(".cm-lint-marker-error")).to_be_visible()
    write(page, "Conditions", "")
    conditions.press_sequentially("/event/q")
    page.get_by_role("option", name="/event/queue").click()
    page.keyboard.type(" == bills")
    expect(preview).to_contain_text("1 would be denied")
    expect(preview).to_contain_text("1 would be allowed")
    expect(page.locator(".cm-lint-marker-error")).to_have_count(0)
    page.get_by_label("User", exact=True).fill("john")
    page.get_by_label("Destination").fill("queue:bills")
    expect(preview.get_by_label("Explanation")).to_contain_text("Allowed: rule 1 (johns)")
    assert [send("orders"), send("bills")] == [201, 403]
    page.get_by_label("Reason").fill("orders are closed")
    save(page)
    expect(page.locator(".toast")).to_contain_text("was changed")
    assert [send("orders"), send("bills")] == [403, 201]

    page.locator(".toast").get_by_role("button", name="Undo").click()
    expect(page.locator(".toast")).to_contain_text("was reverted")
    assert [send("orders"), send("bills")] == [201, 403]
    page.goto("/console/rules/remove?name=johns")
    expect(page.locator(".impact")).to_contain_text("would")
    remove(page)


def test_rules_are_edited_as_text_with_error_marks(
    open_page: OpenPage, broker: BrokerProcess, session: StorageState
) -> None:
    page = open_page(broker, "/console/rules/text", session)
    text = "mom_definitions: 1\nrules:\n  one:\n    effect: dany\n  two: {}\n"
    write(page, "Rules", text)
    expect(page.get_by_label("Preview")).to_contain_text("line 4: one/effect: must be allow or deny")
    expect(page.locator(".cm-lint-marker-error")).to_be_visible()
    write(page, "Rules", text.replace("dany", "deny"))
    expect(page.get_by_label("Preview")).to_contain_text("Rule two created")
    save(page)
    expect(page.locator(".toast")).to_contain_text("2 rules were changed")
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".toast")).to_contain_text("was reverted")


def test_a_denial_becomes_a_rule(
    open_page: OpenPage, broker: BrokerProcess, session: StorageState, send: Send
) -> None:
    page = open_page(broker, "/console/rules/", session)
    add_rule(page, "other", "/event/queue == something.else", "john")
    assert send("wanted") == 403
    page.goto("/console/rules/denials")
    page.get_by_label("Filter denials").press_sequentially("wanted")
    expect(page).to_have_url(re.compile("filter=wanted"))
    page.get_by_role("link", name="Create rule").first.click()
    expect(editor(page, "Conditions")).to_have_text("/event/queue == wanted && /event/method == POST")
    page.get_by_label("Name of the rule").fill("wanted")
    save(page)
    assert send("wanted") == 201
    expect(page.locator("tbody tr", has=page.get_by_role("rowheader", name="wanted"))).to_contain_text("john")
    page.get_by_role("button", name="Move wanted up").click()
    expect(page.locator("tbody tr").first).to_contain_text("wanted")
    for name in ("wanted", "other"):
        page.goto(f"/console/rules/remove?name={name}")
        remove(page)


def test_a_token_is_created_used_and_revoked(
    open_page: OpenPage, broker: BrokerProcess, session: StorageState
) -> None:
    page = open_page(broker, "/console/tokens/", session, viewport=DESKTOP)
    page.get_by_role("link", name="Create token").first.click()
    page.get_by_label("Name", exact=True).fill("laptop")
    page.get_by_label("only those below").check()
    page.get_by_label("send").check()
    page.get_by_label("Destinations").fill("/queue/tokens")
    page.get_by_role("button", name="Create token").click()
    expect(page.locator("#curl")).to_contain_text("/api/v1/queues/tokens/messages")
    secret = page.locator("#secret").inner_text()
    expect(page.get_by_role("button", name="Copy").first).to_be_visible()
    used = f"Bearer {secret}"
    assert [status_of(broker, queue, used) for queue in ("tokens", "others")] == [201, 403]

    page.get_by_role("link", name="Done").click()
    expect(page.get_by_role("row", name="laptop")).to_contain_text("send on /queue/tokens")
    assert secret not in page.content()
    page.get_by_role("link", name="Revoke laptop").click()
    page.get_by_role("button", name="Revoke").click()
    expect(page.locator(".toast")).to_contain_text("was removed")
    assert status_of(broker, "tokens", used) == 401


def test_a_user_is_added_signs_in_and_sees_only_permitted_pages(
    open_page: OpenPage, broker: BrokerProcess, session: StorageState, complaints: list[str]
) -> None:
    page = open_page(broker, "/console/groups/add", session)
    page.get_by_label("Name of the group").fill("office")
    save(page)
    page.goto("/console/users/add")
    page.get_by_label("Name of the user").fill("mary")
    page.get_by_label("office").check()
    page.get_by_label("New password").fill("the password of mary")
    page.keyboard.press("Enter")
    expect(page.get_by_role("row", name="mary")).to_contain_text("office")

    hers = open_page(broker, "/login/?next=/console/explain")
    hers.get_by_label("User name").fill("mary")
    hers.get_by_label("Password").fill("the password of mary")
    hers.keyboard.press("Enter")
    explorer = hers.get_by_role("navigation", name="Explorer")
    expect(explorer.get_by_role("link", name="Tokens")).to_be_visible()
    expect(explorer.get_by_role("link", name="Rules")).to_have_count(0)
    hers.get_by_label("Destination").fill("queue:orders")
    hers.get_by_role("button", name="Explain access").click()
    expect(hers.get_by_label("Explanation")).to_contain_text("mary, in office")
    hers.goto("/console/rules/")
    expect(hers.get_by_role("heading", level=1)).to_have_text("Only administrators can view this page")
    assert all("403" in complaint for complaint in complaints)
    complaints.clear()


def test_a_conflict_shows_both_versions_side_by_side(
    open_page: OpenPage, broker: BrokerProcess, session: StorageState
) -> None:
    page = open_page(broker, "/console/brokers/add", session)
    page.get_by_label("Name of the broker").fill("plant")
    save(page)
    page.get_by_role("link", name="plant").click()
    page.get_by_label("Comment").fill("mine")
    other = open_page(broker, "/console/brokers/edit?name=plant", session)
    other.get_by_label("Comment").fill("theirs")
    save(other)
    save(page)
    expect(page.get_by_role("alert")).to_contain_text("admin changed this while you were editing")
    expect(page.get_by_role("alert").get_by_role("row", name="comment")).to_contain_text("theirs")
    save(page)
    other.goto("/console/brokers/edit?name=plant")
    expect(other.get_by_label("Comment")).to_have_value("mine")


def test_versions_are_compared_and_rolled_back(
    open_page: OpenPage, broker: BrokerProcess, session: StorageState
) -> None:
    page = open_page(broker, "/console/configuration/versions/", session, viewport=DESKTOP)
    before = page.get_by_role("row").nth(1).get_by_role("rowheader").get_by_role("link").inner_text()
    for name in ("one", "two"):
        page.goto("/console/groups/add")
        page.get_by_label("Name of the group").fill(name)
        save(page)
    page.goto(f"/console/configuration/comparison?old={before}&new={int(before) + 2}")
    expect(page.locator(".difference")).to_have_count(2)
    page.get_by_role("link", name=f"Roll back to version {before}…").click()
    expect(page.get_by_label("Preview")).to_contain_text("two removed")
    page.get_by_role("button", name="Roll back").click()
    expect(page.locator(".toast")).to_contain_text(f"rolled back to version {before}")
    page.goto("/console/groups/")
    expect(page.get_by_role("link", name="one", exact=True)).to_have_count(0)


def test_definitions_are_downloaded_planned_and_applied(
    open_page: OpenPage, broker: BrokerProcess, session: StorageState, tmp_path: Path
) -> None:
    page = open_page(broker, "/console/configuration/definitions", session)
    with page.expect_download() as download:
        page.get_by_role("link", name="Download YAML").click()
    file = tmp_path / "definitions.yaml"
    text = download.value.path().read_text()
    file.write_text(re.sub(r"^groups:.*$", "groups:\n  planned: {}", text, flags=re.MULTILINE))
    page.get_by_label("JSON or YAML").set_input_files(file)
    page.get_by_role("button", name="Plan").click()
    expect(page.get_by_label("Plan", exact=True)).to_contain_text("Group planned created")
    page.get_by_role("button", name="Apply").click()
    expect(page.locator(".toast")).to_contain_text("1 change")


def test_files_are_shown_with_their_errors(
    open_page: OpenPage, start_broker: StartBroker, tmp_path: Path
) -> None:
    config = tmp_path / "zero.config"
    config.write_text("/config/mom/max_attempts = 7\n")
    broker = start_broker("--config-file", str(config))
    page = open_page(broker, "/console/configuration/files", sign_in(broker))
    expect(page.get_by_role("row", name="zero.config")).to_contain_text("read")
    config.write_text("/config/mom/max_attempts = \n")
    poll(lambda: "The configuration files are invalid" in page.goto("/console/configuration/files").text())  # type: ignore[union-attr]
    expect(page.get_by_role("alert")).to_contain_text("zero.config:1:")
    page.goto("/console/configuration/?filter=max_attempts")
    expect(page.get_by_role("row", name="max_attempts").first).to_contain_text("zero.config:1")
    page.context.close()  # the broker ends before the browser does


def test_everything_works_without_javascript(
    open_page: OpenPage, broker: BrokerProcess, session: StorageState
) -> None:
    page = open_page(broker, "/console/rules/", session, java_script_enabled=False, viewport=PHONE)
    page.get_by_role("button", name="Menu").click()
    page.get_by_role("navigation", name="Explorer").get_by_role("link", name="Users").click()
    page.get_by_role("link", name="Add a user").click()
    page.get_by_label("Name of the user").fill("plain")
    page.get_by_role("button", name="Save").click()
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".toast")).to_contain_text("was reverted")
    expect(page.get_by_role("button", name="Copy")).to_have_count(0)


def test_the_keyboard_reaches_everything(
    open_page: OpenPage, broker: BrokerProcess, session: StorageState
) -> None:
    page = open_page(broker, "/console/users/", session, viewport=PHONE)
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("navigation", name="Explorer")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("navigation", name="Explorer")).to_be_hidden()
    expect(page.get_by_role("button", name="Menu")).to_be_focused()
    was = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    page.keyboard.press("t")
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") != was
    page.reload()
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") != was


def test_errors_of_forms_are_announced_accessibly(
    open_page: OpenPage, broker: BrokerProcess, session: StorageState
) -> None:
    page = open_page(broker, "/console/rules/", session, viewport=PHONE)
    contrasts = Contrasts()
    for place in ("rules/add", "users/add", "tokens/add"):
        page.goto(f"/console/{place}")
        page.locator("main form").evaluate("form => form.noValidate = true")
        page.locator("main form button.primary").click()
        expect(page.get_by_role("alert").first).to_be_visible()
        contrasts.check(page, frame=True)
