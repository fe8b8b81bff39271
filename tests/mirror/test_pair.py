"""A main and its mirror while both run, as clients, operators and metrics see them."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

import mom_client
from tests.support.broker_process import BrokerProcess
from tests.support.mirrors import login_answer, mirrors_in, serves
from tests.support.polling import poll
from tests.support.postgres import Postgres

pytestmark = pytest.mark.process

NAME = "pair"
Pair = tuple[BrokerProcess, BrokerProcess]


@pytest.fixture(scope="module")
def pair(processes: None, postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """A main that serves and a mirror on standby, which all tests leave so."""
    with mirrors_in(tmp_path_factory.mktemp("pair"), NAME, postgres.url) as made:
        yield made.pair()


async def test_a_mirror_refuses_clients_and_names_the_broker_that_serves(pair: Pair) -> None:
    main, mirror = pair
    active = f"stomp://127.0.0.1:{main.stomp_port},ws://127.0.0.1:{main.port}/ws"
    error = login_answer(mirror)
    assert error.startswith(b"ERROR\n")
    assert f"\nactive:{active.replace(':', chr(92) + 'c')}\n".encode() in error
    assert b"\nreason:MAIN_ACTIVE\n" in error
    for path in ("/api/v1/queues", "/health/ready", "/api/v1/queues/a/messages"):
        reply = mirror.request("GET", path)
        assert (reply.status, reply.json()["reason"]) == (503, "MAIN_ACTIVE")
        assert reply.json()["active"] == active
        assert reply.headers["retry-after"] == "1"
    for address in (f"stomp://127.0.0.1:{mirror.stomp_port}", f"ws://127.0.0.1:{mirror.port}/ws"):
        async with mom_client.connect(address, login=main.user, passcode=main.password) as mom:
            assert mom.address in active.split(",")
    page = mirror.request("GET", "/console/", accept="text/html")
    assert page.status == 503
    assert f'href="{main.url}"'.encode() in page.body
    assert "ERROR" not in mirror.log, "refusing is what a standby is for"


def test_a_client_that_writes_its_login_in_pieces_can_read_the_refusal(pair: Pair) -> None:
    _, mirror = pair
    with socket.create_connection((mirror.host, mirror.stomp_port), 10) as connection:
        connection.sendall(b"CONNECT\n")
        found = b""
        while data := connection.recv(4096):
            found += data
        for piece in (b"accept-version:1.2\n", b"host:/\n", b"\n", b"\0"):
            connection.sendall(piece)  # a reset would raise an error
    assert b"\nreason:MAIN_ACTIVE\n" in found


def test_clients_without_login_get_the_list_of_brokers_from_each(pair: Pair) -> None:
    main, mirror = pair
    poll(lambda: len(main.request("GET", "/failover-list", authorization="").json()["brokers"]) == 2)
    for broker in (main, mirror):
        found = broker.request("GET", "/failover-list", authorization="").json()
        assert [(one["role"], one["state"]) for one in found["brokers"]] == [(1, "active"), (-1, "standby")]
        assert found["uris"][0] == f"stomp://127.0.0.1:{main.stomp_port}"
        assert f"stomp://127.0.0.1:{mirror.stomp_port}" in found["uris"]
    assert (mirror.request("GET", "/health/live").status, serves(main), serves(mirror)) == (200, True, False)


def test_metrics_show_who_holds_the_lease_and_how_far_the_other_is(pair: Pair) -> None:
    main, mirror = pair
    standby = f"127.0.0.1:{mirror.port}"

    def samples(broker: BrokerProcess) -> dict[str, dict[str, float]]:
        reply = broker.request("GET", "/metrics")
        assert reply.status == 200, reply.body
        return {
            family.name: {",".join(one.labels.values()): one.value for one in family.samples}
            for family in text_string_to_metric_families(reply.body.decode())
        }

    poll(lambda: samples(main).get("mom_mirror_in_step") == {standby: 1})
    of_main, of_standby = samples(main), samples(mirror)
    assert (of_main["mom_lease_held"], of_standby["mom_lease_held"]) == ({"": 1}, {"": 0})
    assert of_main["mom_lease_trusted_seconds"][""] > 0
    assert standby in of_main["mom_mirror_lag_records"]
    assert set(of_standby["mom_node_info"]) == {f"{NAME},standby"}
    assert mirror.request("GET", "/metrics", authorization="").status == 401


def test_orders_and_status_of_mirrors_are_for_administrators(pair: Pair) -> None:
    main, mirror = pair
    created = main.request(
        "PUT", "/api/v1/users/john", json_body={"password": "another horse battery"}, if_none_match="*"
    )
    assert created.status in (200, 201), created.body
    john = "Basic am9objphbm90aGVyIGhvcnNlIGJhdHRlcnk="
    poll(lambda: mirror.request("GET", "/api/v1/mirrors", authorization=john).status == 403)
    for broker in (main, mirror):
        assert broker.request("GET", "/api/v1/mirrors", authorization="").status == 401
        reply = broker.request("POST", f"/api/v1/mirrors/{NAME}/switchover", json_body={}, authorization=john)
        assert reply.status == 403
