"""A whole broker with TLS: addresses, client certificates on every plane, and certificates that change."""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

import mom_client
from tests.support.authority import Authority
from tests.support.broker_process import BrokerFailed, BrokerProcess, Reply, StartBroker
from tests.support.polling import poll

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def broker(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = authority.server(password="of the key")
    environment = {
        "MOM_TLS_CERT": str(settings["tls_cert"]),
        "MOM_TLS_KEY": str(settings["tls_key"]),
        "MOM_TLS_KEY_PASSWORD": "of the key",
        "MOM_TLS_CA": str(authority.ca_file),
        "MOM_TLS_CLIENT_CERTIFICATES": "optional",
    }
    data = tmp_path_factory.mktemp("broker") / "data"
    process = BrokerProcess(data, environment=environment, tls=authority.trusted())
    process.start()
    yield process
    process.kill()


@pytest.fixture
def admin(broker: BrokerProcess, authority: Authority) -> Iterator[BrokerProcess]:
    """The broker as it is seen by a program that shows the administrator's certificate, and nothing else."""
    before, broker.tls = broker.tls, authority.trusted(authority.user("admin"))
    yield broker
    broker.tls = before


def bare(broker: BrokerProcess, method: str, path: str, body: bytes | None = None, **headers: str) -> Reply:
    return broker.request(method, path, body, authorization="", **headers)


def test_messages_pass_over_every_tls_port(broker: BrokerProcess, authority: Authority) -> None:
    assert broker.request("POST", "/api/v1/queues/a/messages", b"over https").status == 201

    async def talk() -> list[bytes]:
        tls, addresses = (
            authority.trusted(),
            [
                f"stomp+tls://127.0.0.1:{broker.stomp_tls_port}",
                f"wss://127.0.0.1:{broker.port}/ws",
            ],
        )
        bodies = []
        for address in addresses:
            async with mom_client.connect(
                address, tls=tls, login=broker.user, passcode=broker.password
            ) as mom:
                await mom.send("/queue/a", address.encode())
                async with mom.subscribe("/queue/a") as messages:
                    async for message in messages:
                        bodies.append(message.body)
                        await message.ack()
                        break
        return bodies

    assert asyncio.run(talk())[0] == b"over https"


def test_a_certificate_is_enough_for_messages_and_for_the_control_plane(admin: BrokerProcess) -> None:
    assert bare(admin, "POST", "/api/v1/queues/b/messages", b"hello").status == 201
    assert bare(admin, "GET", "/api/v1/queues/b").status == 200
    assert bare(admin, "GET", "/api/v1/tokens").status == 200
    made = bare(admin, "POST", "/api/v1/tokens", b'{"name": "laptop"}', content_type="application/json")
    assert made.status == 201


@pytest.mark.parametrize("path", ["/api/v1/queues/b/messages", "/api/v1/tokens"])
@pytest.mark.parametrize("header", [{"origin": "https://evil.example"}, {"sec_fetch_site": "cross-site"}])
def test_a_certificate_does_not_count_from_another_page(
    admin: BrokerProcess, path: str, header: dict[str, str]
) -> None:
    reply = bare(admin, "POST", path, b'{"name": "x"}', content_type="application/json", **header)
    assert (reply.status, reply.json()["type"]) == (403, "/docs/problems/not-allowed")


def test_a_wrong_password_is_wrong_whatever_certificate_is_shown(admin: BrokerProcess) -> None:
    for path in ("/api/v1/queues/b", "/api/v1/tokens"):
        assert admin.request("GET", path, authorization="Bearer mom_wrong").status == 401


def test_a_certificate_of_an_unknown_user_is_reported_with_its_name(
    broker: BrokerProcess, authority: Authority
) -> None:
    before, broker.tls = broker.tls, authority.trusted(authority.user("stranger"))
    reply = bare(broker, "GET", "/api/v1/queues/b")
    assert reply.status == 401
    assert "no user is called 'stranger'" in reply.json()["detail"]
    assert bare(broker, "GET", "/api/v1/tokens").status == 401
    broker.tls = before


def test_a_hangup_takes_over_a_new_certificate_at_once(broker: BrokerProcess, authority: Authority) -> None:
    before = served_by(broker)
    authority.server(password="of the key")
    os.kill(broker.pid, signal.SIGHUP)
    poll(lambda: served_by(broker) != before)
    assert broker.request("GET", "/api/v1/queues/a").status == 200


def served_by(broker: BrokerProcess) -> str:
    return ssl.get_server_certificate((broker.host, broker.port))


def test_an_unusable_certificate_is_reported_in_a_line(start_broker: StartBroker, tmp_path: Path) -> None:
    with pytest.raises(
        BrokerFailed, match=r"the broker does not start: tls-cert: cannot read .*missing\.pem"
    ) as failed:
        start_broker(environment={"MOM_TLS_CERT": str(tmp_path / "missing.pem")})
    assert "Traceback" not in str(failed.value)
