"""STOMP over TLS on real sockets: handshakes, certificates that change, and clients with one of their own."""

import asyncio
import logging
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker_app.config import MIB, Config, ConfigError
from broker_app.net.tls.certificates import Certificates
from tests.support.authority import Authority
from tests.support.patience import patient
from tests.support.small_broker import RawClient, SmallBroker, small_broker


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def serial(client: RawClient) -> int:
    tls = client.writer.get_extra_info("ssl_object")
    return int(tls.getpeercert()["serialNumber"], 16)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(patient(10)):
        while not condition():
            await asyncio.sleep(0.01)


async def test_a_client_that_trusts_the_authority_talks_over_tls(authority: Authority) -> None:
    async with small_broker(**authority.server()) as broker:
        broker.tls = authority.trusted()
        client = await broker.client()
        version = client.writer.get_extra_info("ssl_object").version()
        assert version == "TLSv1.3"
        await client.close()


async def test_a_large_message_arrives_whole_and_what_follows_behind_it(authority: Authority) -> None:
    large = b"x" * (8 * MIB)
    async with small_broker(**authority.server()) as broker:
        broker.tls = authority.trusted()
        client = await broker.client()
        client.send(b"SUBSCRIBE\nid:1\ndestination:/queue/a\n\n\0")
        for body in (large, b"small"):
            client.send(b"SEND\ndestination:/queue/a\n\n%b\0" % body)
        found = await client.frames(2)
        assert [frame.partition(b"\n\n")[2] for frame in found] == [large, b"small"]
        assert (await client.ask(b"DISCONNECT\nreceipt:1\n\n\0")).startswith(b"RECEIPT\n")
        assert await client.ended() == b""


@pytest.mark.filterwarnings("ignore:ssl.OP_NO:DeprecationWarning")
async def test_tls_before_1_2_is_refused(authority: Authority, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "broker_app.net.tls.listener")
    async with small_broker(**authority.server()) as broker:
        broker.tls = authority.trusted()
        broker.tls.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
        broker.tls.options |= ssl.OP_NO_TLSv1_2 | ssl.OP_NO_TLSv1_3
        broker.tls.set_ciphers("ALL:@SECLEVEL=0")
        with pytest.raises(ConnectionError):
            await broker.stranger()
        await until(lambda: "unsupported protocol" in caplog.text)


async def test_a_client_of_another_authority_refuses_us_and_it_is_logged(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "broker_app.net.tls.listener")
    async with small_broker(**authority.server()) as broker:
        broker.tls = Authority(tmp_path, "other").trusted()
        with pytest.raises(ssl.SSLCertVerificationError):
            await broker.stranger()
        await until(lambda: "no TLS with 127.0.0.1" in caplog.text)


@pytest.mark.parametrize(
    "said", [b"CONNECT\naccept-version:1.2\nhost:/\n\n\0", b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"]
)
async def test_a_client_without_tls_on_the_tls_port_gets_an_answer(
    authority: Authority, said: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with small_broker(**authority.server()) as broker:
        with caplog.at_level(logging.INFO, "broker_app.net.tls.listener"):
            client = await broker.stranger()
            client.send(said)
            answer = await client.ended()
            await client.close()
        assert answer.startswith(b"ERROR\n") and b"tls-required" in answer
        assert "does not speak TLS" in caplog.text


async def test_a_silent_client_is_disconnected_after_the_timeout(authority: Authority) -> None:
    async with small_broker(**authority.server(), connect_timeout=0.1) as broker:
        client = await broker.stranger()
        assert await client.ended() == b""
        await client.close()


async def test_an_unfinished_handshake_is_disconnected_after_the_timeout(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    async with small_broker(**authority.server(), connect_timeout=0.2) as broker:
        with caplog.at_level(logging.INFO, "broker_app.net.tls.listener"):
            client = await broker.stranger()
            client.send(b"\x16\x03\x01\x02\x00\x01")
            await client.ended()
            await until(lambda: "no TLS with" in caplog.text)
            await client.close()


async def test_a_new_certificate_is_for_new_connections_and_the_old_ones_stay(authority: Authority) -> None:
    async with small_broker(**authority.server()) as broker:
        broker.tls = authority.trusted()
        certificates = broker.certificates
        assert certificates is not None
        following = asyncio.create_task(certificates.follow(0.02))
        before = await broker.client()
        authority.server()
        await until(lambda: certificates.generation == 2)
        after = await broker.client()
        assert serial(before) != serial(after)
        asked = b"SUBSCRIBE\nid:1\ndestination:/queue/a\nreceipt:r\n\n\0"
        assert (await before.ask(asked)).startswith(b"RECEIPT")
        await before.close()
        await after.close()
        following.cancel()


async def test_an_invalid_file_changes_nothing_until_it_is_fixed(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    settings = authority.server()
    async with small_broker(**settings) as broker:
        broker.tls = authority.trusted()
        certificates = broker.certificates
        assert certificates is not None
        following = asyncio.create_task(certificates.follow(0.02))
        settings["tls_cert"].write_text("nonsense")
        await until(lambda: "the former certificate stays in use" in caplog.text)
        assert str(settings["tls_cert"]) in caplog.text
        await (await broker.client()).close()
        settings["tls_cert"].unlink()
        await until(lambda: "cannot read" in caplog.text)
        authority.server()
        await until(lambda: certificates.generation > 1)
        await (await broker.client()).close()
        following.cancel()


async def test_a_requested_check_applies_changes_at_once(authority: Authority) -> None:
    async with small_broker(**authority.server()) as broker:
        certificates = broker.certificates
        assert certificates is not None
        following = asyncio.create_task(certificates.follow(3600))
        authority.server()
        certificates.reload_now()
        await until(lambda: certificates.generation == 2)
        following.cancel()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"tls_cert": "missing.pem"}, "tls-cert: cannot read .*missing.pem: No such file"),
        ({"tls_cert": "server.pem"}, r"server.pem has no private key in it: name the file"),
        ({"tls_cert": "server.pem", "tls_key": "other.key"}, "other.key is not the key of the certificate"),
        ({"tls_cert": "server.pem", "tls_key": "locked.key"}, "has a password: set tls-key-password-file"),
        (
            {"tls_cert": "server.pem", "tls_key": "locked.key", "tls_key_password": "wrong"},
            "tls-key-password does not decrypt",
        ),
        (
            {"tls_cert": "server.pem", "tls_key": "server.key", "tls_ca": "server.key"},
            "server.key contains no certificates",
        ),
        (
            {"tls_cert": "server.pem", "tls_key": "server.key", "tls_client_certificates": "optional"},
            "tls-ca is not set: set it to the authorities that sign them",
        ),
    ],
)
async def test_unusable_settings_are_named_with_the_reason(
    authority: Authority, tmp_path: Path, settings: dict[str, str], said: str
) -> None:
    authority.server("server")
    authority.server("other")
    authority.server("locked", password="right")
    paths = {
        name: tmp_path / value if name in ("tls_cert", "tls_key", "tls_ca") else value
        for name, value in settings.items()
    }
    with pytest.raises(ConfigError, match=said):
        Certificates(Config(**paths))  # type: ignore[arg-type]


async def test_a_key_with_a_password_is_opened_by_it(authority: Authority) -> None:
    settings = authority.server(password="right")
    async with small_broker(**settings, tls_key_password="right") as broker:
        broker.tls = authority.trusted()
        await (await broker.client()).close()


async def test_a_certificate_that_expires_soon_is_logged(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    Certificates(Config(**authority.server(days=3)))  # type: ignore[arg-type]
    assert "expires in 2 days" in caplog.text


def asking(authority: Authority, wanted: str = "optional", name: str = "cn") -> dict[str, Any]:
    return {
        **authority.server(),
        "tls_ca": authority.ca_file,
        "tls_client_certificates": wanted,
        "tls_client_name": name,
    }


async def login(broker: SmallBroker, tls: ssl.SSLContext, *headers: bytes) -> bytes:
    broker.tls = tls
    client = await broker.stranger()
    lines = b"".join(header + b"\n" for header in (b"accept-version:1.2", b"host:/", *headers))
    try:
        return await client.ask(b"CONNECT\n" + lines + b"\n\0")
    finally:
        await client.close()


async def test_a_certificate_authenticates_without_a_login(authority: Authority) -> None:
    async with small_broker(**asking(authority)) as broker:
        answer = await login(broker, authority.trusted(authority.user("anna")))
        assert answer.startswith(b"CONNECTED\n") and b"user-name:anna\n" in answer


async def test_a_certificate_may_name_its_user_by_an_alternative_name(authority: Authority) -> None:
    async with small_broker(**asking(authority, name="dns")) as broker:
        answer = await login(broker, authority.trusted(authority.user("somebody", "elsewhere", "anna")))
        assert b"user-name:anna\n" in answer
        answer = await login(broker, authority.trusted(authority.user("anna", "elsewhere")))
        assert b"no user is called 'elsewhere'" in answer


async def test_a_login_counts_more_than_a_certificate(authority: Authority) -> None:
    async with small_broker(**asking(authority)) as broker:
        anna = authority.trusted(authority.user("anna"))
        assert b"not-authenticated" in await login(broker, anna, b"login:anna", b"passcode:wrong")


async def test_a_certificate_of_an_unknown_user_is_refused(authority: Authority) -> None:
    async with small_broker(**asking(authority)) as broker:
        answer = await login(broker, authority.trusted(authority.user("nobody")))
        assert b"not-authenticated" in answer and b"no user is called 'nobody'" in answer
        assert b"CONNECT has no login" in await login(broker, authority.trusted())


async def test_a_certificate_of_another_authority_ends_the_handshake(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stranger = Authority(tmp_path, "other").user("anna")
    tls = authority.trusted(stranger)
    async with small_broker(**asking(authority)) as broker:
        with caplog.at_level(logging.INFO, "broker_app.net.tls.listener"), pytest.raises((OSError, EOFError)):
            await login(broker, tls)
        await until(lambda: "the client's certificate is refused" in caplog.text)


async def test_a_required_certificate_is_enforced(authority: Authority) -> None:
    async with small_broker(**asking(authority, "required")) as broker:
        with pytest.raises((OSError, EOFError)):
            await login(broker, authority.trusted(), b"login:anna", b"passcode:secret")
        assert b"user-name:anna" in await login(broker, authority.trusted(authority.user("anna")))


async def test_an_authority_that_is_exchanged_is_not_trusted_any_more(
    authority: Authority, tmp_path: Path
) -> None:
    settings = asking(authority)
    anna = authority.trusted(authority.user("anna"))
    async with small_broker(**settings) as broker:
        assert b"user-name:anna" in await login(broker, anna)
        certificates = broker.certificates
        assert certificates is not None
        following = asyncio.create_task(certificates.follow(0.02))
        Authority(tmp_path)  # writes another ca.pem
        await until(lambda: certificates.generation == 2)
        with pytest.raises((OSError, EOFError)):
            await login(broker, anna)
        following.cancel()
