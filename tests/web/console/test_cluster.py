"""The page of the cluster, with a node that has the report of one test."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from django.test import Client

from broker_app.base.refused import Refused
from broker_app.features.cluster.clients.client_reports import (
    BrokerLoad,
    ClientReport,
    HeldList,
    ListenerLists,
    ListPlace,
    ListsReport,
    ListVersion,
    RebalanceReport,
    Rebalancing,
)
from broker_app.features.cluster.configuration.central_reload import BrokerReload
from broker_app.features.cluster.links.frames import ChangedSetting
from broker_app.features.cluster.record.keeper import KeeperResult, unchanged
from broker_app.features.cluster.report import AdoptedReport, ClusterReport, DiscoveryReport
from broker_app.net.http.listing import ListingPage
from broker_app.net.rest.node.cluster_clients import client_listing
from broker_app.web.console.forwarding.cluster_topology import HEIGHT, draw
from tests.support.answering_node import answering
from tests.support.clusters import a_link, a_report, a_takeover, an_enhanced_cluster, an_interest
from tests.support.no_alerts import NO_ALERTS

pytestmark = pytest.mark.django_db


_BALANCED: dict[str, Any] = {
    "broker": "b1", "share": 3, "moves": 0, "running": None, "history": [], "stays": {},
    "brokers": [BrokerLoad(broker="b1", clients=3, gets=0, surplus=0)],
}  # fmt: skip
_RUN = Rebalancing(
    cause="b2 joined", began=1_750_000_000.0, planned={"b2": 5}, moved={"b2": 4}, declined=1,
    state="incomplete", ended=1_750_000_060.0,
)  # fmt: skip


def a_held_list(version: int, clients: int, **facts: Any) -> HeldList:
    since = 1_750_000_000.0 if version else None
    held = {"listener": "", "version": version, "since": since, "behind": version < 7, "clients": clients}
    return HeldList(**{**held, **facts})


def a_client(number: int, version: int = 7, **facts: Any) -> ClientReport:
    return ClientReport(
        **{
            "id": f"c-{number:05d}", "user": "ann", "client_id": f"till-{number}", "listener": "",
            "address": f"tcp 10.0.0.1:{number}", "list_version": version, "behind": version < 7,
            "list_since": 1_750_000_000.0 if version else None, "to": "", "stays": "not-needed", **facts,
        }
    )  # fmt: skip


def some_lists(**facts: Any) -> ListsReport:
    """Lists of which some clients have an older one, unless `facts` say otherwise."""
    uris = ["stomp://b2.example:61613", "stomp://b1.example:61613"]
    version = ListVersion(version=7, since=1_750_000_000.0, cause="b2 joined", uris=uris)
    return ListsReport(
        **{
            "version": 7, "updates": True, "updates_on_remove": False, "rebalances": True, "filter": "",
            "listeners": [], "brokers": [],
            "warnings": [], "clients": 9, "behind": 2, "held": [a_held_list(7, 7), a_held_list(0, 2)],
            "own": uris[1:], "versions": [version], **facts,
        }
    )  # fmt: skip


class AnsweringNode:
    """A node with the cluster of one test."""

    stomp_port = 61613
    alerts = NO_ALERTS
    mirror = None

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.operations = self
        #: the consoles of the other brokers
        self.consoles: list[str] = []
        self.report: ClusterReport | None = None
        self.lists, self.rebalance = some_lists(), RebalanceReport(**_BALANCED)
        self.clients: list[ClientReport] = []
        #: what an order answers
        self.begun: Rebalancing | Refused | None = None
        self.ordered_by: list[str] = []
        self.reloads: list[BrokerReload] = []
        self.keeper = ""

    def cluster_consoles(self) -> list[str]:
        return self.consoles

    async def cluster_report(self) -> ClusterReport | None:
        return self.report

    async def cluster_clients(self) -> tuple[ListsReport, RebalanceReport]:
        return self.lists, self.rebalance

    async def list_cluster_clients(self, query: dict[str, str]) -> ListingPage:
        return client_listing(500).page(self.clients, query)

    async def rebalance_clients(self, user: str) -> Rebalancing | None:
        self.ordered_by.append(user)
        if isinstance(self.begun, Refused):
            raise self.begun
        return self.begun

    async def reload_cluster(self) -> list[BrokerReload]:
        return self.reloads

    async def change_keeper(self, broker: str) -> None:
        if broker != "b2":
            raise unchanged(KeeperResult.UNAVAILABLE)
        self.keeper = broker


@pytest.fixture
def node() -> Iterator[AnsweringNode]:
    with answering(AnsweringNode) as made:
        yield made


def page_of(inside: Client, **query: str) -> str:
    reply = inside.get("/console/cluster/", query)
    assert reply.status_code == 200
    return " ".join(reply.content.decode().split())


def test_without_a_cluster_the_page_shows_the_command_that_makes_one(
    inside: Client, node: AnsweringNode
) -> None:
    page = page_of(inside)
    assert "This broker is in no cluster" in page
    assert "mom up --name b1 --cluster-port 7676 --cluster b1host:7676,b2host:7676,b3host:7676" in page
    assert "MOM_CLUSTER_SECRET" in page


def test_a_page_knows_the_consoles_of_the_other_brokers(inside: Client, node: AnsweringNode) -> None:
    node.report = a_report(a_link("b2"))
    node.consoles = ["http://b2.example:8000", "https://b3.example/mom", "javascript:alert(1)"]
    assert 'data-cluster="http://b2.example:8000 https://b3.example/mom"' in page_of(inside)


def test_members_of_an_enhanced_cluster_are_shown_with_their_takeovers(
    inside: Client, node: AnsweringNode
) -> None:
    discovery = [DiscoveryReport(way="multicast", place="239.255.2.3:6155", error="no such device")]
    node.report = a_report(
        a_link("b2", found_by="registry"), enhanced=an_enhanced_cluster(), discovery=discovery
    )
    page = page_of(inside)
    for shown in (
        "b2.example:7676 · found in the registry",
        "<strong>Brokers cannot be found by multicast 239.255.2.3:6155.</strong> no such device",
        "A member that fails is taken over after 4 s at most.",
        "</svg> operating</span>",
        '</svg> suspect</span> <p class="quiet">No heart-beat for 2.5 s, and none in 1 look at it.',
        'Suspected by b1, b3 since <time datetime="2025-06-15T15:06:43.500000+00:00">15:06:43 UTC</time>.',
        "It is taken over after 2 looks, when its lease has ended.",
        "no heart-beat of b3 for 3.1 s, and none in 2 looks at it",
        "<b>b1</b> took over 17 messages from b3 within 0.25 s, epoch 7.",
    ):
        assert shown in page, shown
    node.report = a_report(a_link("b2"))
    assert "Members that take over" not in page_of(inside)


def test_members_that_may_be_gone_for_good_can_be_removed(inside: Client, node: AnsweringNode) -> None:
    node.report = a_report(a_link("b2"), enhanced=an_enhanced_cluster())
    found = re.findall(r'<mom-member-removal member="(.*?)" messages="(.*?)">', page_of(inside))
    assert found == [("b3", "17")], "b1 operates, and b2 may be alive"


def test_a_broker_without_others_is_alone_in_its_cluster(inside: Client, node: AnsweringNode) -> None:
    alone = "<b>b1</b> is alone in its cluster: there is no other broker to link to."
    node.report = a_report()
    assert alone in page_of(inside)
    replaced = a_link("b3", state="connecting")
    node.report = a_report(replaced, enhanced=an_enhanced_cluster())
    assert alone in page_of(inside)
    node.report = a_report(replaced)
    assert "<b>b1</b> is linked to 0 of 1 other brokers." in page_of(inside)


def test_each_takeover_says_what_was_lost_by_it_and_what_was_not_taken(
    inside: Client, node: AnsweringNode
) -> None:
    takeovers = [
        a_takeover(epoch=12, result="running", suspected=None, why="ordered by ann"),
        a_takeover(epoch=11, result="failed", error="record 7 is damaged"),
        a_takeover(epoch=10, lost_messages=None),
        a_takeover(epoch=9, lost_messages=1),
        a_takeover(epoch=8, lost_messages=3),
        a_takeover(epoch=7, lost_messages=0),
    ]
    node.report = a_report(a_link("b2"), enhanced=an_enhanced_cluster(takeovers=takeovers))
    rows = re.findall(r'<li data-takeover="shop.b3 (\d+)">(.*?)</li>', page_of(inside))
    shown = {int(epoch): row for epoch, row in rows}
    unknown, kept = (
        "the number of those that only the memory of b3 had is not known.",
        "no persistent message",
    )
    assert "</svg> under way</span> <b>b1</b> takes over from b3, epoch 12." in shown[12]
    assert "Lost" not in shown[12] and "Reason: ordered by ann" in shown[12]
    assert "could not take over from b3, epoch 11: record 7 is damaged." in shown[11]
    assert "<strong>Nothing was taken: the messages wait in the journal.</strong>" in shown[11]
    assert f"<strong>Lost: {kept}; {unknown}</strong>" in shown[10]
    assert f"<strong>Lost: {kept}; about 1 message that only the memory of b3 had.</strong>" in shown[9]
    assert f"<strong>Lost: {kept}; about 3 messages that only the memory of b3 had.</strong>" in shown[8]
    assert "Lost: no message, by the last report of b3. Open transactions were rolled back." in shown[7]
    suspected = '<time datetime="2025-06-15T15:06:40+00:00">15:06:40 UTC</time>.'
    assert f"b3 had been suspect for 3.0 s, since {suspected} Reason: no heart-beat of b3" in shown[7]
    node.report = a_report(a_link("b2"), enhanced=an_enhanced_cluster(takeovers=[]))
    assert "No takeovers yet." in page_of(inside)


def test_a_member_that_is_taken_over_is_not_shown_as_one_that_connects(
    inside: Client, node: AnsweringNode
) -> None:
    gone = a_link("b3", state="connecting", reason="[Errno 111] Connection refused")
    node.report = a_report(a_link("b2"), gone, a_link("b3~7", address=""), enhanced=an_enhanced_cluster())
    page = page_of(inside)
    assert "<b>b1</b> is linked to the other broker." in page and "Errno" not in page
    assert 'b3~7</a> <span class="tag">journal of b3</span><p class="quiet">named by a broker' in page
    assert [vertex.name for vertex in draw(node.report).vertices] == ["b1", "b2", "b3~7"]


def test_the_page_begins_with_what_does_not_work_and_why(inside: Client, node: AnsweringNode) -> None:
    node.report = a_report(
        a_link("b2"),
        a_link("b3", state="refused", reason="autocreate.queue is false here and true there"),
        a_link("b4", state="connecting", reason="no route to host", stomp="", web=""),
        keeper="b4:7676", keeper_state="the keeper cannot be reached", quiesced=True,
        adopted=[AdoptedReport(member="b9", journal="redis://store", epoch=3, took_s=0.2, messages=17)],
    )  # fmt: skip
    page = page_of(inside)
    assert "<b>b1</b> is linked to 1 of 3 other brokers." in page
    for shown in (
        "autocreate.queue is false here and true there",
        "Changes of the configuration are refused.",
        "the keeper cannot be reached",
        "This broker refuses new clients",
        "b9 has failed, and this broker serves its journal.</strong> 17 messages are left in it.",
    ):
        assert shown in page
    assert '<a href="http://b2.example:8000/console/" data-whole>b2</a>' in page
    assert "b4.example:8000" not in page, "where it was not reached, its address is not known"


def test_a_cluster_that_works_says_so_in_a_sentence(inside: Client, node: AnsweringNode) -> None:
    node.report = a_report(a_link("b2"), a_link("b3"), keeper="b1:7676", keeper_is_here=True)
    page = page_of(inside)
    assert "<b>b1</b> is linked to all 2 other brokers." in page
    assert 'data-tone="bad"' not in page and 'data-tone="warn"' not in page


def test_consumers_are_found_by_words_of_destination_broker_and_selector(
    inside: Client, node: AnsweringNode
) -> None:
    node.report = a_report(
        a_link("b2"),
        interest=[
            an_interest("b1", "/queue/bills"),
            an_interest("b2", "/queue/orders", selector="colour = 'red'", consumers=3),
            an_interest("b2", "/topic/prices.*"),
        ],
    )
    page = page_of(inside)
    assert page.count("data-consumer=") == 3
    assert "/console/topics/one?name=prices" not in page, "a filter with wildcards has no page"
    found = page_of(inside, filter="ORDERS b2 red")
    assert found.count("data-consumer=") == 1 and "/console/queues/one?name=orders" in found
    assert "Nothing matches the filter." in page_of(inside, filter="nothing")


@pytest.mark.parametrize("number", [1, 2, 4, 5, 9, 29])
def test_no_broker_covers_another_in_the_drawing(number: int) -> None:
    drawing = draw(a_report(*(a_link(f"b{at}") for at in range(2, number + 2))))
    places = [(vertex.x, vertex.y) for vertex in drawing.vertices]
    assert len(set(places)) == number + 1
    for x in {x for x, _ in places}:
        column = sorted(y for at, y in places if at == x)
        assert all(below - above > HEIGHT for above, below in pairwise(column))
    assert min(y for _, y in places) >= 0 and max(y for _, y in places) + HEIGHT <= drawing.height


def test_what_is_not_known_is_not_drawn_and_names_are_cut(inside: Client, node: AnsweringNode) -> None:
    node.report = a_report(
        a_link("b2", sent_rate=0.0, received_rate=0.0),
        a_link("a-rather-long-name-of-a-broker", sent_rate=1234.5),
    )
    page = page_of(inside)
    (svg,) = re.findall(r"<svg class=\"topology.*?</svg>", page)
    assert "0/s" not in svg
    assert "1,234/s" in svg or "1,235/s" in svg
    assert "a-rather-long-na…" in svg and "<title>a-rather-long-name-of-a-broker</title>" in svg


def test_the_page_shows_who_has_which_list_and_who_would_go_where(
    inside: Client, node: AnsweringNode
) -> None:
    node.report = a_report(a_link("b2"))
    node.rebalance = RebalanceReport(
        **{
            **_BALANCED, "moves": 4, "stays": {"priority": 2, "transaction": 3}, "history": [_RUN],
            "brokers": [
                BrokerLoad(broker="b1", clients=9, gets=0, surplus=5),
                BrokerLoad(broker="b2", clients=0, gets=5, surplus=0),
            ],
        }
    )  # fmt: skip
    page = page_of(inside)
    for shown in (
        "Clients are sent list 7",
        "2 of 9 clients have an older one, or none.",
        "<b>List 7</b>, since b2 joined: <code>stomp://b2.example:61613</code>",
        '<code>stomp://b1.example:61613</code> <span class="tag">this broker</span>',
        "<dt>have a transaction</dt><dd class=" + '"num">3</dd>',
        "5 clients are asked to go to other brokers",
        "b2 joined: 4 of 5 have gone, 1 stayed though they were asked.",
    ):
        assert shown in page, shown
    assert page.count("data-load=") == 2


def test_the_page_shows_how_many_clients_have_which_list_and_those_that_are_behind_first(
    inside: Client, node: AnsweringNode
) -> None:
    node.report = a_report(a_link("b2"))
    node.clients = [a_client(number) for number in range(9_990)]
    node.clients += [a_client(number, version=6) for number in range(9_990, 9_997)]
    node.clients += [a_client(number, version=0, to="b2", stays="") for number in range(9_997, 10_000)]
    held = [a_held_list(7, 9_990), a_held_list(6, 7), a_held_list(2, 2, listener="ws")]
    node.lists = some_lists(clients=10_000, behind=10, held=held)
    page = page_of(inside)
    assert re.findall(r'data-list="(\S* \d+)".*?class="num">([\d,]+)<', page) == [
        (" 7", "9,990"),
        (" 6", "7"),
        ("ws 2", "2"),
    ]
    assert "1 more client has another list." in page and "of the listener ws" in page
    rows = re.findall(r'data-client="(\S+)"', page)
    assert rows[:11] == [
        *("c-09997", "c-09998", "c-09999"),
        *(f"c-{number:05d}" for number in range(9_990, 9_997)),
        "c-00000",
    ]
    assert len(rows) == 50 and "The first 50 of 10,000 are shown" in page
    assert "?id=c-09997" in page and "till-9997</a>" in page and "goes to b2" in page
    assert len(page) < 100_000


def test_clients_are_found_by_their_words_and_by_the_list_that_they_have(
    inside: Client, node: AnsweringNode
) -> None:
    node.report = a_report(a_link("b2"))
    node.clients = [
        a_client(1), a_client(2, version=6), a_client(3, version=0), a_client(4, to="b2", stays="")
    ]  # fmt: skip

    def found(**query: str) -> list[str]:
        return re.findall(r'data-client="c-0000(\d)"', page_of(inside, **query))

    assert found() == ["3", "2", "1", "4"]
    assert found(which="behind") == ["3", "2"]
    assert found(which="moves") == ["4"]
    assert found(which="6") == ["2"] and found(which="0") == ["3"]
    assert found(client="ANN till-4") == ["4"] and found(client="10.0.0.1:3") == ["3"]
    page = page_of(inside, client="none-such", which="behind")
    assert "No client matches." in page and '<option value="behind" selected>' in page
    too_many = page_of(inside, client="*" * 9)
    assert "wildcards" in too_many or "may have" in too_many


def test_the_page_shows_for_each_listener_which_brokers_are_on_its_list_and_why_others_are_not(
    inside: Client, node: AnsweringNode
) -> None:
    node.report = a_report(a_link("b2"))
    secure = ListenerLists(
        listener="stomp+tls", version=3, updates=True, updates_on_remove=False, rebalances=False, filter="b2",
        uris=["stomp+tls://b2.example:61614"],
        brokers=[ListPlace(broker="b2", state="listed"), ListPlace(broker="b3", state="filtered")],
    )  # fmt: skip
    silent = msgspec.structs.replace(secure, listener="ws", updates=False, uris=[], brokers=[])
    general = [ListPlace(broker="b2", state="left")]
    node.lists = some_lists(brokers=general, listeners=[secure, silent])
    page = page_of(inside)
    places = re.findall(r'data-place="(\w+)">.*?</svg> ([^<]*)<', page)
    assert places == [
        ("b2", "on the list though away"),
        ("b2", "on the list"),
        ("b3", "kept off by the filter"),
    ]
    assert "<code>stomp+tls://b2.example:61614</code>" in page
    assert "Clients of the listener ws</h2> <p>They are sent no list.</p>" in page
    node.lists = some_lists(updates=False, listeners=[secure])
    page = page_of(inside)
    assert "Clients are not sent the addresses" not in page and "They are sent list 3:" in page


def test_settings_without_effect_are_a_warning_on_the_page(inside: Client, node: AnsweringNode) -> None:
    node.report = a_report(a_link("b2"))
    node.lists = some_lists(updates=False, warnings=["rebalance_cluster_clients alone has no effect"])
    page = page_of(inside)
    assert '<p class="notice" data-tone="warn">rebalance_cluster_clients alone has no effect</p>' in page
    assert "Clients are not sent the addresses of other brokers." in page
    assert "Rebalance…" not in page


def test_an_administrator_has_clients_rebalanced(inside: Client, node: AnsweringNode) -> None:
    node.report = a_report(a_link("b2"))
    for begun, said in (
        (_RUN, "Clients are being rebalanced."),
        (None, "No client needs to go"),
        (Refused("conflict", "clients are being rebalanced already"), "being rebalanced already"),
    ):
        node.begun = begun
        reply = inside.post("/console/cluster/", {"reason": "b2 is idle"}, follow=True)
        assert said in reply.content.decode()
    assert len(node.ordered_by) == 3 and len(set(node.ordered_by)) == 1
    assert "b2 is idle" in inside.get("/console/audit/").content.decode()


def test_an_administrator_has_the_central_file_read_again(
    inside: Client, node: AnsweringNode, settings: Any
) -> None:
    node.report = a_report(a_link("b2"))
    assert "Reload the central file…" not in page_of(inside), "there is none"
    settings.MOM = replace(settings.MOM, cluster_url="file:/etc/mom/cluster.properties")
    assert "Reload the central file…" in page_of(inside)
    node.reloads = [
        BrokerReload(broker="b1", applied=[ChangedSetting("max_messages", "0", "9")]),
        BrokerReload(broker="b2", refused=[ChangedSetting("max_body_bytes", "64", "32")]),
        BrokerReload(broker="b3", error="its link ended before it answered"),
    ]
    page = inside.post("/console/cluster/orders", {"order": "reload"}, follow=True).content.decode()
    for told in (
        "b1 uses the central file as it is now. max_messages",
        "b2: max_body_bytes is 64, and 32 in the central file. It needs a restart.",
        "b3: its link ended before it answered",
    ):
        assert told in page, told


def test_an_administrator_changes_the_keeper(inside: Client, node: AnsweringNode, settings: Any) -> None:
    node.report = a_report(a_link("b2"), a_link("b3"), keeper="b1:7676", keeper_is_here=True)
    assert "New keeper" not in page_of(inside), "it may not move"
    settings.MOM = replace(settings.MOM, cluster_dynamic_keeper=True)
    assert "<option>b2</option><option>b3</option>" in page_of(inside)
    for broker, told in (("b3", "UNAVAILABLE: the new keeper is not connected"), ("b2", "b2 is the keeper.")):
        order = {"order": "changemaster", "broker": broker}
        reply = inside.post("/console/cluster/orders", order, follow=True)
        assert told in reply.content.decode()
    assert node.keeper == "b2"
