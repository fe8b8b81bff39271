"""Pages of the brokers of a cluster: what belongs to another one, and what holds for all."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from mom_client import blocking
from tests.browser.conftest import OpenPage, sign_in
from tests.support.broker_process import BrokerProcess
from tests.support.polling import poll
from tests.support.ports import reserve_ports

pytestmark = pytest.mark.process

_SECRET = {"MOM_CLUSTER_SECRET": "a secret of the cluster in this test"}


@pytest.fixture(scope="module")
def brokers(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[BrokerProcess]]:
    """Three that are linked."""
    ports = reserve_ports(3)
    addresses = ",".join(f"127.0.0.1:{port}" for port in ports)
    folder = tmp_path_factory.mktemp("cluster")
    made = [
        BrokerProcess(
            folder / f"b{at}",
            *("--name", f"b{at}", "--cluster-port", str(port), "--cluster", addresses),
            environment=_SECRET,
        )
        for at, port in enumerate(ports, 1)
    ]
    try:
        for broker in made:
            broker.start()
        for broker in made:
            poll(lambda broker=broker: states(broker) == ["up", "up"])  # type: ignore[misc]
        yield made
    finally:
        for broker in made:
            broker.kill()


def states(broker: BrokerProcess) -> list[str]:
    """The states of the links of a broker."""
    return [link["state"] for link in broker.request("GET", "/api/v1/cluster").json()["links"]]


def declare(broker: BrokerProcess, queue: str, **settings: object) -> None:
    address = f"/api/v1/queues/{queue}"
    assert broker.request("PUT", address, json_body=settings, if_none_match="*").status == 201


def publish(broker: BrokerProcess, queue: str) -> str:
    """Send a message; returns its id."""
    reply = broker.request("POST", f"/api/v1/queues/{queue}/messages", b"hello", content_type="text/plain")
    assert reply.status == 201, reply.body
    return str(reply.json()["id"])


@pytest.mark.parametrize(
    ("queue", "settings", "shown"),
    [
        ("shared", {"max_messages": 300, "scope": "cluster"}, "per cluster, 300 effective"),
        ("each", {"max_messages": 100, "scope": "broker"}, "per broker, 300 effective"),
    ],
)
def test_a_limit_is_shown_with_its_scope_and_what_it_is_for_all_brokers_together(
    brokers: list[BrokerProcess], open_page: OpenPage, queue: str, settings: dict[str, object], shown: str
) -> None:
    b1, _, b3 = brokers
    declare(b1, queue, **settings)
    poll(lambda: b3.request("GET", f"/api/v1/queues/{queue}").status == 200)
    limit = settings["max_messages"]
    for broker, used in ((b1, 1), (b3, 0)):
        if used:
            publish(broker, queue)
        page = open_page(broker, f"/console/queues/one?name={queue}&tab=settings", sign_in(broker))
        meter = page.locator("mom-limit-meter[limit=max_messages]")
        expect(meter).to_contain_text(f"{used} of {limit} used")
        expect(meter).to_contain_text(shown)


def test_a_message_of_another_broker_shows_why_it_waits_there(
    brokers: list[BrokerProcess], open_page: OpenPage, complaints: list[str]
) -> None:
    b1, _, b3 = brokers
    first = publish(b1, "orders")
    publish(b1, "orders")
    page = open_page(b3, "/console/queues/one?name=orders", sign_in(b3))
    row = page.locator("tr.message", has_text="at b1").nth(1)
    row.get_by_role("button").click()
    details = page.locator("tr.message-details")
    details.get_by_text("Why is this message here?").click()
    expect(details.locator(".reasons")).to_contain_text("/queue/orders has no consumers at b1, b2, b3")
    expect(details.locator(".reasons")).to_contain_text("1 message of /queue/orders")
    expect(details).to_contain_text("Open the console of b1 to read, move or delete it.")
    expect(details.get_by_role("button", name="Delete…")).to_have_count(0)
    page.goto(f"/console/queues/one?name=orders&message={first}&q=nothing+has+this")
    apart = page.get_by_role("region", name="Linked message")
    expect(apart).to_contain_text("at b1")
    expect(apart.locator(".reasons")).to_contain_text("no-consumer")
    # The queue and the message are at the other broker alone.
    assert all("404" in complaint for complaint in complaints)
    complaints.clear()


def test_a_queue_leads_to_its_consumers_at_all_brokers(
    brokers: list[BrokerProcess], open_page: OpenPage
) -> None:
    _, b2, b3 = brokers
    address = f"stomp://{b2.host}:{b2.stomp_port}"
    with (
        blocking.Client(address, login=b2.user, passcode=b2.password) as client,
        client.subscribe("/queue/bills"),
        client.subscribe("/queue/other"),
    ):
        page = open_page(b3, "/console/queues/one?name=bills", sign_in(b3))
        page.get_by_role("link", name="In the cluster").click()
        rows = page.locator("[data-consumer]")
        expect(rows).to_have_count(1)
        expect(rows).to_contain_text("b2")
