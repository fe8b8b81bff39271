"""`mom service` and `mom callback subscribers`, against a real broker."""

from broker_app.cli.failures import FAILED, NOT_FOUND, OK
from tests.cli.conftest import CommandLine
from tests.support.broker_process import BrokerProcess


def test_a_service_is_listed_shown_activated_and_deregistered(
    mom: CommandLine, broker: BrokerProcess
) -> None:
    body = {"name": "cli.stock", "machine": "h1", "type": "shop"}
    assert broker.request("POST", "/api/v1/services", json_body=body).status == 201
    (row,) = mom("service", "ls", "--filter", "cli.stock", "-o", "json").json()
    assert (row["name"], row["machine"], row["callbacks"], row["origin"]) == ("cli.stock", "h1", False, "")
    id = row["id"]
    assert mom("service", "deactivate", id).code == OK
    assert mom("service", "show", id, "-o", "json").json()["active"] is False
    assert mom("service", "activate", id).code == OK
    assert "no origin" in mom("service", "pending", id).err
    assert mom("service", "rm", id, "--yes").code == OK
    assert mom("service", "show", id).code == NOT_FOUND


def test_only_a_callback_broker_has_origins(mom: CommandLine) -> None:
    refused = mom("callback", "origins")
    assert refused.code == FAILED
    assert "no callback broker" in refused.err


def test_live_subscribers_are_listed(mom: CommandLine) -> None:
    mom("pub", "cli.live", "1")
    with mom.popen("sub", "cli.live", "--notify", "-n", "2", "-o", "ndjson") as listening:
        assert listening.stdout is not None
        listening.stdout.readline()
        rows = mom("callback", "subscribers", "-o", "json").json()
        (row,) = [row for row in rows if row["source"] == "/queue/cli.live"]
        assert (row["mode"], row["transport"], row["events"], row["pending"]) == ("notify", "sse", 1, 1)
        mom("pub", "cli.live", "2")
        listening.stdout.readline()
