"""`mom service` and `mom callback subscribers`, against a real broker."""

from broker_app.cli.base.failures import FAILED, NOT_FOUND, OK, USAGE
from tests.cli.conftest import CommandLine
from tests.support.broker_process import BrokerProcess
from tests.support.polling import poll


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


def test_seeds_are_listed_and_removed(mom: CommandLine, broker: BrokerProcess) -> None:
    service = {"name": "cli.shop", "type": "shop"}
    assert broker.request("POST", "/api/v1/services", json_body=service).status == 201
    path = "/api/v1/profiles/messages?profile=type%20%3D%20%27shop%27&max_copies=3"
    assert broker.request("POST", path, b"open at nine").status == 201
    poll(lambda: mom("service", "seed", "ls", "-o", "json").json()[0]["copies"] == 1, 20)
    (seed,) = mom("service", "seed", "ls", "--sort", "-copies", "-o", "json").json()
    assert (seed["profile"], seed["max_copies"], seed["services"]) == ("type = 'shop'", 3, ["cli.shop"])
    assert mom("service", "seed", "ls").rows[1][-1] == "cli.shop"
    assert mom("service", "seed", "rm", seed["id"]).code == USAGE, "it asks at a terminal only"
    assert mom("service", "seed", "rm", seed["id"], "--yes").code == OK
    assert mom("service", "seed", "ls", "-o", "json").json() == []
    assert mom("service", "seed", "rm", seed["id"], "--yes").code == NOT_FOUND


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
