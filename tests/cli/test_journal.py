"""Looking into the files of a journal."""

import json
import socket
from pathlib import Path

from broker_app.cli.base.failures import CONFLICT, FAILED, NOT_FOUND, OK
from tests.cli.conftest import CommandLine
from tests.support.broker_process import BrokerProcess, StartBroker
from tests.support.patience import patient


def test_verify_and_dump(start_broker: StartBroker, command_line: CommandLine) -> None:
    broker = start_broker()
    for body in (b"first", b"second"):
        assert (
            broker.request("POST", "/api/v1/queues/q/messages", body, Mom_Header_Tenant="acme").status == 201
        )
    taken = broker.request("POST", "/api/v1/queues/q/receive", json_body={"ack": "auto"}).json()["items"]
    assert [item["body"] for item in taken] == ["first"]
    journal = broker.data / "journal"

    verified = command_line("journal", "verify", str(journal), "-o", "json")
    assert verified.code == OK
    assert not any(row["damage"] for row in verified.json())

    lines = [
        json.loads(line)
        for line in command_line("journal", "dump", str(journal), "--bodies").out.splitlines()
    ]
    published = [line for line in lines if line["record"] == "published"]
    assert [(line["destination"], line["position"], line["body"]) for line in published] == [
        ("/queue/q", 1, "first"),
        ("/queue/q", 2, "second"),
    ]
    assert "tenant:acme" in published[0]["headers"]
    (gone,) = (line for line in lines if line["record"] == "gone")
    assert gone.items() >= {"cause": "acknowledged", "positions": [1], "body_bytes": [5]}.items()
    assert (gone["header_bytes"], gone["deliveries"]) == ([len(published[0]["headers"])], [1])
    assert gone["with_own_id"] == [] and len(gone["queue_ms"]) == 1
    assert [client["user"] for client in gone["clients"]] == [broker.user]
    assert any(line["record"] == "delivered" and line["up_to"] == 1 for line in lines)
    later = command_line("journal", "dump", str(journal), "--from", "2").out.splitlines()
    assert min(json.loads(line)["position"] for line in later) == 2


def test_dump_shows_subscriptions_and_delays(start_broker: StartBroker, command_line: CommandLine) -> None:
    broker = start_broker()
    command_line.about(broker)
    with command_line.popen("sub", "/topic/t", "--durable", "kept", "-n", "1") as leaving:
        assert leaving.stderr is not None and "listening" in leaving.stderr.readline()
        assert command_line("pub", "/topic/t", "x").code == OK
        leaving.communicate(timeout=patient(30))
    assert command_line("topic", "forget", "kept", "--yes").code == OK
    assert command_line("pub", "q", "later", "--delay", "60").code == OK
    dumped = command_line("journal", "dump", str(broker.data / "journal"))
    assert dumped.code == OK, dumped.err
    records = {line["record"]: line for line in map(json.loads, dumped.out.splitlines())}
    assert (records["subscribed"]["filter"], records["subscribed"]["owner"]) == ("/topic/t", broker.user)
    assert records["forgotten"]["destination"] == "/topic-subscription/kept"
    assert records["published"]["due_ms"] == records["published"]["time_ms"] + 60_000


def test_dump_shows_deliveries_that_failed(start_broker: StartBroker, command_line: CommandLine) -> None:
    broker = start_broker()
    broker.request("POST", "/api/v1/queues/q/messages", b"x")
    for _ in range(2):
        wish = {"max": 1, "wait_s": 20, "lease_s": 60}
        (item,) = broker.request("POST", "/api/v1/queues/q/receive", json_body=wish).json()["items"]
        assert broker.request("POST", f"/api/v1/leases/{item['receipt']}/nack").status == 204
    dumped = command_line("journal", "dump", str(broker.data / "journal")).out.splitlines()
    lines = list(map(json.loads, dumped))
    own = {"user": broker.user}
    assert lines[0]["client"] == own
    assert [
        (line["record"], line.get("attempts"), line.get("reason"), line.get("clients")) for line in lines[1:]
    ] == [
        ("delivered", None, None, None),
        ("given back", {"1": 1}, "NACKED", [own]),
        ("delivery began", {"1": 2}, None, [own]),
        ("given back", {"1": 2}, "NACKED", [own]),
    ]


def forward(broker: BrokerProcess, *positions: int) -> bytes:
    """Forward messages as the bridge of another broker; its offset."""
    login = f"login:{broker.user}\npasscode:{broker.password}\nmom-bridge:home~1"
    flow = "destination:/queue/storeAndForwardSyncQueue\nid:f\nmom-source:s\nmom-target:/queue/t"
    frames = [f"CONNECT\naccept-version:1.2\nhost:/\n{login}\n\n\0", f"SUBSCRIBE\n{flow}\n\n\0"]
    frames += [f"SEND\ndestination:/queue/t\nmom-flow:f\nreceipt:{at}\n\nx\0" for at in positions]
    got = b""
    with socket.create_connection(("127.0.0.1", broker.stomp_port), 30) as connection:
        connection.sendall("".join(frames).encode())
        while got.count(b"\0") < 2 + len(positions):
            got += connection.recv(10_000)
    return b"".join(line + b"\n" for line in got.split(b"\n") if line.startswith((b"accepted:", b"count:")))


def test_offsets_survive_a_kill_and_are_dumped(start_broker: StartBroker, command_line: CommandLine) -> None:
    broker = start_broker()
    journal = str(broker.data / "journal")
    assert forward(broker, 5, 7) == b"accepted:0\ncount:0\n"
    broker.kill()
    dumped = [json.loads(line) for line in command_line("journal", "dump", journal).out.splitlines()]
    marks = [line for line in dumped if line["record"] == "marked"]
    assert marks[-1].items() >= {"destination": "/mark/home~1/s", "accepted": 7, "count": 2}.items()
    origins = [line["origin"] for line in dumped if line["record"] == "published"]
    assert origins == [{"offset": "/mark/home~1/s", "position": at} for at in (5, 7)]
    assert command_line("journal", "verify", journal).code == OK
    assert "no damage" in command_line("journal", "repair", journal).err
    assert command_line("journal", "compact", journal).code == OK
    broker.start()
    assert forward(broker, 7, 8) == b"accepted:7\ncount:2\n"
    queues = broker.request("GET", "/api/v1/queues").json()["items"]
    found = {queue["name"]: queue["depth"] for queue in queues}
    assert (found["t"], found["storeAndForwardSyncQueue"]) == (3, 1)


def test_damage_is_reported(start_broker: StartBroker, command_line: CommandLine) -> None:
    broker = start_broker()
    for _ in range(3):
        broker.request("POST", "/api/v1/queues/q/messages", b"x" * 1000)
    broker.kill()
    segment = next((broker.data / "journal").glob("log-*.seg"))
    content = bytearray(segment.read_bytes())
    content[content.index(b"x" * 1000)] ^= 1
    segment.write_bytes(content)

    damaged = command_line("journal", "verify", str(broker.data / "journal"), "-o", "json")
    assert damaged.code == FAILED
    assert any(row["damage"] for row in damaged.json())
    assert "the journal is damaged" in damaged.err


def test_a_damaged_journal_is_repaired(start_broker: StartBroker, command_line: CommandLine) -> None:
    broker = start_broker()
    for letter in b"abc":
        broker.request("POST", "/api/v1/queues/q/messages", bytes([letter]) * 1000)
    journal = str(broker.data / "journal")
    in_use = command_line("journal", "repair", journal)
    assert (in_use.code, "a broker is using this journal" in in_use.err) == (CONFLICT, True)
    broker.kill()
    segment = next((broker.data / "journal").glob("log-*.seg"))
    content = bytearray(segment.read_bytes())
    content[content.index(b"b" * 1000)] ^= 1
    segment.write_bytes(content)

    found = command_line("journal", "repair", journal, "--dry-run", "-o", "json")
    assert found.code == OK
    assert "positions 2 to 2, which named /client/admin/, /queue/q" in found.json()[0]["finding"]
    refused = command_line("journal", "repair", journal)
    assert (refused.code, "nothing was changed" in refused.err) == (FAILED, True)
    done = command_line("journal", "repair", journal, "--skip-damaged")
    assert done.code == OK
    assert "repaired; 2 messages wait" in done.err
    compacted = command_line("journal", "compact", journal, "-o", "json")
    assert compacted.json()[0]["waiting"] == 2
    broker.start()
    taken = broker.request("POST", "/api/v1/queues/q/receive", json_body={"max": 10, "ack": "auto"}).json()
    assert [item["body"][0] for item in taken["items"]] == ["a", "c"]
    assert command_line("journal", "repair", journal + "/nowhere").code == NOT_FOUND


def test_no_journal_there(command_line: CommandLine, tmp_path: Path) -> None:
    assert command_line("journal", "verify", str(tmp_path / "nowhere")).code == NOT_FOUND
    assert command_line("journal", "dump").code == NOT_FOUND
    made = tmp_path / "empty"
    made.mkdir()
    assert command_line("journal", "verify", str(made)).code == NOT_FOUND
    assert command_line("journal", "compact", str(made)).code == NOT_FOUND
    assert not list(made.iterdir())
