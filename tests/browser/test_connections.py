"""The pages of clients, in a real browser, with a real client."""

import socket

from playwright.sync_api import Page, expect

from tests.support.broker_process import BrokerProcess


def test_a_client_is_found_and_closed_with_a_reason_that_it_receives(
    page: Page, broker: BrokerProcess
) -> None:
    with socket.create_connection((broker.host, broker.stomp_port), 30) as client:
        client.sendall(
            b"CONNECT\naccept-version:1.2\nhost:/\nclient-id:till-7\nlogin:%b\npasscode:%b\n\n\0"
            b"SUBSCRIBE\nid:1\ndestination:/queue/orders\nack:client\nreceipt:r\n\n\0"
            % (broker.user.encode(), broker.password.encode())
        )
        until(client, b"RECEIPT")
        page.get_by_role("link", name="Connections", exact=True).click()
        page.get_by_label("Filter by user").fill("till-7")
        expect(page.get_by_role("status").filter(has_text="1 client of")).to_be_visible()
        page.get_by_role("row", name="till-7").get_by_role("link").click()
        expect(page.get_by_role("row", name="/queue/orders")).to_be_visible()
        expect(page.locator(".timeline")).to_contain_text("subscribed /queue/orders")
        page.get_by_role("button", name="Close connection…").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Reason shown to the client").fill("the till is replaced tonight")
        dialog.get_by_role("button", name="Close").click()
        assert b"the till is replaced tonight" in until(client, b"ERROR")
    # Events are kept after the client has disconnected.
    expect(page.get_by_role("heading", level=1)).to_have_text("till-7")
    expect(page.locator(".facts div", has_text="in/s").locator("dd")).to_have_text("\N{EN DASH}")
    expect(page.locator(".standing")).to_contain_text("disconnected")
    expect(page.locator(".timeline li").first).to_contain_text("disconnected: the till is replaced tonight")
    expect(page.locator(".timeline")).to_contain_text(f"by {broker.user}")
    page.get_by_role("link", name="Connections", exact=True).first.click()
    page.get_by_role("button", name="disconnected in the last 24 hours").click()
    expect(page.get_by_role("row", name="till-7")).to_contain_text("the till is replaced tonight")


def until(client: socket.socket, word: bytes) -> bytes:
    """Receive up to a whole frame that begins with `word`."""
    received = b""
    while word not in received or not received.rstrip(b"\n").endswith(b"\0"):
        got = client.recv(10_000)
        assert got, f"the broker ended the connection after {received!r}"
        received += got
    return received
