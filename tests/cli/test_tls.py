"""`mom` and a broker with TLS: what it trusts, what it shows, and its error when that fails."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_app.cli.base.failures import FAILED, OK, UNREACHABLE, USAGE
from tests.cli.conftest import CommandLine
from tests.support.authority import Authority
from tests.support.broker_process import BrokerProcess


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def broker(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    files = {**authority.server(days=10), "tls_ca": authority.ca_file, "tls_client_certificates": "optional"}
    environment = {f"MOM_{name.upper()}": str(value) for name, value in files.items()}
    data = tmp_path_factory.mktemp("broker") / "data"
    process = BrokerProcess(data, environment=environment, tls=authority.trusted())
    process.start()
    yield process
    process.kill()


@pytest.fixture
def mom(command_line: CommandLine, broker: BrokerProcess) -> CommandLine:
    command_line.environment["MOM_URL"] = broker.url
    return command_line


def shows(authority: Authority) -> list[str]:
    return ["--ca-file", str(authority.ca_file), "--cert-file", str(authority.user("admin"))]


def test_a_certificate_is_login_enough(mom: CommandLine, authority: Authority) -> None:
    sent = mom("pub", "/queue/a", "hello", *shows(authority))
    assert sent.code == OK, sent.err
    assert mom("get", "/queue/a", *shows(authority)).rows[1][-1] == "hello"


def test_a_context_keeps_authorities_and_certificate(
    mom: CommandLine, broker: BrokerProcess, authority: Authority
) -> None:
    del mom.environment["MOM_URL"]
    added = mom("context", "add", "secure", "--url", broker.url, *shows(authority))
    assert added.code == OK, added.err
    assert mom("queue", "ls").code == OK


def test_stomp_over_tls_by_its_own_address(
    mom: CommandLine, broker: BrokerProcess, authority: Authority
) -> None:
    address = f"stomp+tls://127.0.0.1:{broker.stomp_tls_port}"
    sent = mom("pub", "/queue/b", "hello", "--url", address, *shows(authority))
    assert sent.code == OK, sent.err


@pytest.mark.parametrize("command", [("queue", "ls"), ("pub", "/queue/a", "x")])
def test_a_certificate_of_an_unknown_authority_is_reported(
    mom: CommandLine, command: tuple[str, ...]
) -> None:
    failed = mom(*command)
    assert failed.code == UNREACHABLE
    assert "its certificate is not trusted: self-signed certificate in certificate chain" in failed.err
    assert "MOM_CA_FILE" in failed.err


def test_plain_http_to_a_tls_port_is_reported(mom: CommandLine, broker: BrokerProcess) -> None:
    failed = mom("queue", "ls", "--url", f"http://127.0.0.1:{broker.port}")
    assert "this port accepts only https and wss" in failed.err
    assert "write its address with https://" in failed.err


def test_tls_to_a_plain_port_is_reported(
    mom: CommandLine, broker: BrokerProcess, authority: Authority
) -> None:
    address = f"stomp+tls://127.0.0.1:{broker.stomp_port}"
    failed = mom("pub", "/queue/a", "x", "--url", address, "--ca-file", str(authority.ca_file))
    assert "it does not speak TLS at this port" in failed.err


def test_a_file_that_cannot_be_used_is_named(mom: CommandLine, tmp_path: Path) -> None:
    failed = mom("queue", "ls", "--ca-file", str(tmp_path / "missing.pem"))
    assert failed.code == USAGE
    assert "missing.pem cannot be used for TLS: No such file or directory" in failed.err


def test_the_doctor_checks_the_certificate(
    mom: CommandLine, broker: BrokerProcess, authority: Authority
) -> None:
    mom.environment |= {
        "MOM_STOMP_PORT": str(broker.stomp_port),
        "MOM_STOMP_TLS_PORT": str(broker.stomp_tls_port),
        "MOM_TLS_CERT": "server.pem",
    }
    looked = mom("doctor", "--data", str(broker.data), *shows(authority))
    found = {row[0]: row for row in looked.rows[1:]}
    assert looked.code == OK, looked.err
    assert found["certificate"][1] == "warning" and "9 days left" in found["certificate"][2]
    for check in ("STOMP port", "STOMP port, TLS", "web port", "broker", "login"):
        assert found[check][1] == "ok", looked.out
    strange = mom("doctor", "--data", str(broker.data))
    assert strange.code == FAILED
    assert "--ca-file" in {row[0]: row for row in strange.rows}["certificate"][3]
