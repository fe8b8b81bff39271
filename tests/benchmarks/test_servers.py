"""The peers' configuration and the servers' dialects."""

from pathlib import Path

import pytest

from benchmarks.child import Child, ServerFailed
from benchmarks.servers import SERVERS, ActiveMQ, Mom, RabbitMQ, with_stomp_connector


def test_activemq_gets_one_connector_more() -> None:
    openwire = '<transportConnector name="openwire"/>'
    xml = f"<broker>\n  <transportConnectors>\n    {openwire}\n  </transportConnectors>\n</broker>"
    changed = with_stomp_connector(xml, 61724)
    assert openwire in changed
    assert '<transportConnector name="stomp" uri="stomp://127.0.0.1:61724"/>' in changed


def test_an_activemq_file_of_another_form_is_refused() -> None:
    with pytest.raises(ServerFailed):
        with_stomp_connector("<broker/>", 61724)


def test_no_two_servers_share_a_port_and_the_default_ports_stay_free() -> None:
    ports = [port for server in SERVERS for port in server.ports]
    assert len(set(ports)) == len(ports)
    assert not {8000, 61613} & set(ports)


def test_only_mom_takes_several_messages_in_one_post() -> None:
    assert 50 in Mom.batches
    assert 50 not in RabbitMQ.batches
    assert "rest" not in ActiveMQ.protocols


@pytest.mark.process
def test_a_child_that_ends_by_itself_is_reported_with_the_end_of_its_log(tmp_path: Path) -> None:
    child = Child("false", ["sh", "-c", "echo broken; exit 3"], tmp_path / "log", cwd=tmp_path, env={})
    with pytest.raises(ServerFailed, match=r"false ended with status 3\nbroken"):
        child.wait_until(lambda: False, timeout=30)


@pytest.mark.process
def test_a_child_is_stopped_once_and_stopping_again_is_harmless(tmp_path: Path) -> None:
    child = Child("sleep", ["sleep", "600"], tmp_path / "log", cwd=tmp_path, env={})
    child.stop()
    child.stop()
    with pytest.raises(ServerFailed, match="ended with status -15"):
        child.check()
