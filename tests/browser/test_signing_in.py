"""Signing in to the console."""

import re

from playwright.sync_api import expect

from tests.browser.conftest import OpenPage, wait_live
from tests.support.broker_process import BrokerProcess


def test_the_front_page_leads_to_the_sign_in_form_and_from_there_to_the_console(
    open_page: OpenPage, broker: BrokerProcess
) -> None:
    page = open_page(broker, "/")
    page.get_by_label("User name").fill(broker.user)
    page.get_by_label("Password").fill(broker.password)
    page.keyboard.press("Enter")
    page.wait_for_url("**/console/")
    wait_live(page)
    expect(page.get_by_role("heading", name="Overview", exact=True)).to_be_visible()


def test_a_wrong_password_is_reported_and_the_name_is_kept(
    open_page: OpenPage, broker: BrokerProcess
) -> None:
    page = open_page(broker, "/login/")
    page.get_by_label("User name").fill(broker.user)
    page.get_by_label("Password").fill("guessed")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("correct")
    expect(page.get_by_label("User name")).to_have_value(broker.user)


def test_the_one_time_link_signs_in_once(
    open_page: OpenPage, broker: BrokerProcess, complaints: list[str]
) -> None:
    link = broker.login_link()
    wait_live(open_page(broker, link))
    second = open_page(broker, link)
    expect(second.get_by_role("heading", name="This link was already used")).to_be_visible()
    assert all("410" in complaint for complaint in complaints)
    complaints.clear()


def test_signing_out_leads_back_to_the_form(
    open_page: OpenPage, broker: BrokerProcess, complaints: list[str]
) -> None:
    page = open_page(broker, broker.login_link())
    wait_live(page)  # the browser would report a connection that ends before it is there
    page.get_by_role("button", name=re.compile("^Account of")).click()
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/login/")
    page.goto("/console/")
    page.wait_for_url("**/login/?next=/console/")
    # What the page asked for while the session ended was refused.
    assert all("401" in complaint for complaint in complaints)
    complaints.clear()
