"""Inputs from clients of the data plane."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections import Counter
from collections.abc import Callable
from functools import partial
from random import Random
from urllib.parse import quote

from broker_app.net.rest.openapi.document import PATHS, document
from broker_app.net.rest.openapi.schemas import Json
from mom_client.stomp.frame import MESSAGE, Frame
from mom_client.stomp.parser import Parser
from tests.laws.attacks.senders import (
    CONNECT,
    LAST,
    LENIENT,
    MIB,
    PASSWORD,
    USER,
    Attack,
    Attacks,
    Broker,
    answer_from,
    client,
    filled,
    in_json,
    over_tcp,
    over_web_socket,
    rest,
    stomp,
)
from tests.support.node_process import NodeProcess
from tests.support.patience import patient
from tests.support.staged_rows import MEDIA_TYPE, rows, stage_id, to

#: queues that a listing, a browse or a snapshot has to go through
QUEUES = 20_000
OF_ALL = "20,000 queues"
#: the administrator, who may see metrics
ADMIN = NodeProcess.user
#: what makes many queues
MAKE_QUEUES = "SEND to a queue of its own", "SEND in a transaction", "notifications"


def over_queues(attack: Attack) -> Attack:
    """`attack` where there are many queues."""

    async def prepared(node: Broker) -> str:
        frames = (b"SEND\ndestination:/queue/many.%d\n\n\0" % number for number in range(QUEUES))
        await over_tcp(node, b"".join(frames))
        return await attack(node)

    return prepared


async def bulk(node: Broker) -> str:
    async with client(node) as http:
        stage = stage_id()
        count = 10_000
        body = to("/queue/a", *[b"x" * 90] * count)
        staged = await http.post(
            f"/bulk/stage?id={stage}", content=body, headers={"content-type": MEDIA_TYPE}
        )
        wanted = {"producer": "p", "batch": 0, "stages": [{"id": stage, "parts": 1, "rows": count}]}
        done = await http.post("/bulk/commit", json=wanted)
        return f"{staged.status_code} {done.status_code} {done.text[:100]}"


async def bulk_of_envelopes(node: Broker) -> str:
    """Rows each of which has an envelope of its own."""
    async with client(node) as http:
        count = MIB // 90
        envelopes = [
            {"destination": f"/queue/a.{n % 10}", "headers": {"h": f"{n:040}"}} for n in range(count)
        ]
        content = rows(envelopes, [(n, b"x") for n in range(min(count, 10_000))])
        done = await http.post(
            f"/bulk/stage?id={stage_id()}", content=content, headers={"content-type": MEDIA_TYPE}
        )
        return f"{done.status_code} {done.text[:60]}"


def over_messages(*paths: str, together: int = 1) -> Attack:
    """Requests about a queue with 10,000 messages, which are 1 MiB."""

    async def attack(node: Broker) -> str:
        await over_tcp(node, filled(lambda n: b"SEND\ndestination:/queue/a\na:%d\n\n%b\0" % (n, b"x" * 60)))
        async with client(node) as http:
            asked = [http.get(f"/queues/a/messages?{path}") for path in paths for _ in range(together)]
            replies = await asyncio.gather(*asked)
            return f"{replies[0].status_code} {replies[0].text[:60]}"

    return attack


async def receive_with_selectors(node: Broker) -> str:
    """Selectors of 1,024 characters, as many as are 1 MiB, at once."""
    async with client(node) as http:
        asked = [
            http.post("/queues/a/receive", json={"max": 1, "selector": selector(n), "wait_s": 0})
            for n in range(MIB // 1_024)
        ]
        replies = await asyncio.gather(*asked)
        return f"{replies[0].status_code} {replies[0].text[:60]}"


async def settle(node: Broker) -> str:
    async with client(node) as http:
        receipts = [f"{n:0300}" for n in range(MIB // 310)]
        done = await http.post("/leases/settle", json={"ack": receipts})
        most = await http.post("/leases/settle", json={"ack": receipts[:1_000]})
        return f"{done.status_code} {most.status_code} {most.text[:60]}"


def later(attack: Attack, seconds: float) -> Attack:
    """`attack`, and what comes of it in the next seconds."""

    async def attack_and_wait(node: Broker) -> str:
        came = await attack(node)
        await asyncio.sleep(seconds)
        return came

    return attack_and_wait


def then(attack: Attack, method: str, path: str) -> Attack:
    """`attack`, and one request as the administrator."""

    async def attack_and_ask(node: Broker) -> str:
        came = await attack(node)
        async with client(node, node.user) as http:
            reply = await http.request(method, path)
            return f"{came} {reply.status_code}"

    return attack_and_ask


def every_operation(body_of: Callable[[Json], bytes]) -> Attack:
    """1 MiB to each operation that takes JSON, as the administrator, whom none refuses before it reads;
    `body_of` makes it for a schema."""

    async def attack(node: Broker) -> str:
        statuses: Counter[int] = Counter()
        async with client(node, node.user) as http:
            for path, method, schema in JSON_OPERATIONS:
                reply = await http.request(
                    method, path, content=body_of(schema), headers={"content-type": "application/json"}
                )
                statuses[reply.status_code] += 1
        assert not [status for status in statuses if status in (500, 502)], statuses
        return str(dict(statuses))

    return attack


def json_operations() -> list[tuple[str, str, Json]]:
    """Path, method and schema of the operations whose body is JSON."""
    whole = document()
    found = []
    for path, methods in PATHS.items():
        for method, operation in methods.items():
            content = operation.get("requestBody", {}).get("content", {}) if method != "parameters" else {}
            if "application/json" in content:
                schema = content["application/json"]["schema"]
                name = schema.get("$ref", "").rpartition("/")[2]
                filled_in = re.sub(r"\{\w+\}", "a", path.removeprefix("/api/v1"))
                found.append((filled_in, method.upper(), whole["components"]["schemas"].get(name, schema)))
    return found


JSON_OPERATIONS = json_operations()


def long_lists(schema: Json) -> bytes:
    """Its lists, with as many items as there is room for."""
    of = {"integer": 1, "object": {}, "string": "x"}
    lists = {
        name: [of.get(about.get("items", {}).get("type"), "x")]
        for name, about in schema.get("properties", {}).items()
        if about.get("type") == "array"
    }
    whole = {name: items * (MIB // 5 // len(lists)) for name, items in lists.items()}
    return json.dumps(whole or {"x": [1] * (MIB // 3)}).encode()


def small_messages(payload: bytes, first: int) -> bytes:
    """1 MiB of frames of WebSockets with this payload; `first` is the byte that they begin with."""
    frame = bytes((first, 0x80 | len(payload))) + bytes(4) + payload
    return frame * (MIB // len(frame))


def over_deliveries(command: bytes) -> Attack:
    """One frame about all messages that were sent, of which the client has all."""

    async def attack(node: Broker) -> str:
        reader, writer = await asyncio.open_connection(node.host, node.stomp_port)
        try:
            writer.write(CONNECT + b"SUBSCRIBE\nid:1\ndestination:/queue/a\nack:client\ncredit:50000\n\n\0")
            sent = filled(lambda n: b"SEND\ndestination:/queue/a\n\n\0")
            writer.write(sent)
            parser, left, last = Parser(role="client"), sent.count(b"\0"), ""
            async with asyncio.timeout(patient(30)):
                while left:
                    for frame in parser.receive(await reader.read(1 << 18)):
                        if isinstance(frame, Frame) and frame.command == MESSAGE:
                            left, last = left - 1, frame.headers["ack"]
            writer.write(command + b"\nid:%b\n\n\0" % last.encode() + LAST)
            return await answer_from(partial(reader.read, 1 << 18))
        finally:
            writer.close()

    return attack


def in_frames(frames: bytes) -> Attack:
    """Send frames of a WebSocket of STOMP that no library makes."""

    async def attack(node: Broker) -> str:
        reader, writer = await asyncio.open_connection(node.host, node.port)
        try:
            writer.write(UPGRADE)
            await reader.readuntil(b"\r\n\r\n")
            writer.write(bytes((0x82, 0x80 | len(CONNECT))) + bytes(4) + CONNECT)
            assert b"CONNECTED" in await reader.readuntil(b"\n\n\0")
            writer.write(frames + bytes((0x82, 0x80 | len(LAST))) + bytes(4) + LAST)
            return await answer_from(partial(reader.read, 1 << 18))
        except ConnectionError:
            return "closed"
        finally:
            writer.close()

    return attack


def raw_http(head: bytes, again: bytes, last: bytes = b"") -> Attack:
    """Bytes of HTTP as the user, until the answers end."""

    async def attack(node: Broker) -> str:
        reader, writer = await asyncio.open_connection(node.host, node.port)
        received = b""
        try:
            writer.write(head + again * (MIB // len(again)) + last)
            async with asyncio.timeout(patient(5)):
                while piece := await reader.read(1 << 18):
                    received = received or piece
        except (ConnectionError, TimeoutError):
            pass
        finally:
            writer.close()
        return received[9:60].decode(errors="replace")

    return attack


def shuffled_ends(header: bytes = b"") -> bytes:
    """Subscriptions with such a line, and their ends in another order."""
    ids = list(range(5_000))
    begin = b"".join(b"SUBSCRIBE\nid:%d\ndestination:/queue/a\n%b\n\0" % (id, header) for id in ids)
    Random(1).shuffle(ids)
    return begin + b"".join(b"UNSUBSCRIBE\nid:%d\n\n\0" % id for id in ids)


def selector(number: int, size: int = 1_000) -> str:
    """A long condition that no other one equals."""
    terms = [f"a{number}='x'"]
    while len(" OR ".join(terms)) < size - 20:
        terms.append(f"b{len(terms)}<>{number}")
    return " OR ".join(terms)


LOGIN = b"host: a\r\nauthorization: Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()) + b"\r\n"
GET = b"GET /api/v1/queues HTTP/1.1\r\n" + LOGIN + b"\r\n"
CHUNKED = b"POST /api/v1/queues/a/messages HTTP/1.1\r\n" + LOGIN + b"transfer-encoding: chunked\r\n\r\n"
UPGRADE = (
    b"GET /ws HTTP/1.1\r\nhost: a\r\nconnection: Upgrade\r\nupgrade: websocket\r\n"
    b"sec-websocket-version: 13\r\nsec-websocket-protocol: v12.stomp\r\n"
    b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
LONG = quote(selector(0))
DURABLE = b"SUBSCRIBE\nid:d\ndestination:/topic/t\ndurable-name:d\nack:client-individual\ncredit:1\n\n\0"
SLOW_READERS = b"".join(
    b"SUBSCRIBE\nid:s%d\ndestination:/topic/t\nack:client-individual\nprefetch-count:1\n\n\0" % n
    for n in range(100)
)
EVENT = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}

CLIENTS: Attacks = {
    ("STOMP", "SEND to one queue"): stomp(lambda n: b"SEND\ndestination:/queue/a\n\n\0"),
    ("STOMP", "SEND with a header of its own"): stomp(
        lambda n: b"SEND\ndestination:/queue/a\nh:%d\n\n\0" % n
    ),
    ("STOMP", "SEND to a queue of its own"): stomp(lambda n: b"SEND\ndestination:/queue/a.%d\n\n\0" % n),
    ("STOMP", "SEND of 1 MiB"): stomp(
        lambda n: b"SEND\ndestination:/queue/a\ncontent-length:%d\n\n%b\0" % (MIB, bytes(MIB))
    ),
    ("STOMP", "SEND to a topic with 100 slow readers"): stomp(
        lambda n: b"SEND\ndestination:/topic/t\n\n\0", before=SLOW_READERS
    ),
    ("STOMP", "SEND with a group"): stomp(
        lambda n: b"SEND\ndestination:/queue/a\nmessage-group:%d\n\n\0" % n,
        before=b"SUBSCRIBE\nid:1\ndestination:/queue/a\n\n\0",
    ),
    ("STOMP", "SEND with a delay"): stomp(lambda n: b"SEND\ndestination:/queue/a\ndelay:1000\n\n\0"),
    ("STOMP", "messages that are due at once"): later(
        stomp(lambda n: b"SEND\ndestination:/queue/a\ndelay:1500\n\n\0"), 2.0
    ),
    ("STOMP", "messages that expire at once"): later(
        stomp(lambda n: b"SEND\ndestination:/queue/a\nttl-s:1\n\n\0"), 2.0
    ),
    ("STOMP", "the end of a client with many deliveries"): later(
        stomp(
            lambda n: b"SEND\ndestination:/queue/a\n\n\0",
            before=b"SUBSCRIBE\nid:1\ndestination:/queue/a\nack:client-individual\ncredit:50000\n\n\0",
        ),
        1.0,
    ),
    ("STOMP", "a cumulative NACK of many deliveries"): over_deliveries(b"NACK"),
    ("STOMP", "a cumulative ACK of many deliveries"): over_deliveries(b"ACK"),
    ("STOMP", "an ABORT of many messages"): stomp(
        lambda n: b"SEND\ndestination:/queue/a\ntransaction:t\n\n\0",
        before=b"BEGIN\ntransaction:t\n\n\0",
        after=b"ABORT\ntransaction:t\n\n\0",
    ),
    ("STOMP", "the end of a durable subscription with many messages"): stomp(
        lambda n: b"SEND\ndestination:/topic/t\n\n\0",
        before=DURABLE + b"UNSUBSCRIBE\nid:d\n\n\0",
        after=DURABLE + b"UNSUBSCRIBE\nid:d\ndelete:true\n\n\0",
    ),
    ("STOMP", "SEND to a profile"): stomp(lambda n: b"SEND\ndestination:/profile/name = '%d'\n\n\0" % n),
    ("STOMP", "SEND in a transaction"): stomp(
        lambda n: b"SEND\ndestination:/queue/a.%d\ntransaction:t\n\n%b\0" % (n, b"x" * 70),
        before=b"BEGIN\ntransaction:t\n\n\0",
        after=b"COMMIT\ntransaction:t\n\n\0",
    ),
    ("STOMP", "SUBSCRIBE to a queue"): stomp(lambda n: b"SUBSCRIBE\nid:%d\ndestination:/queue/a\n\n\0" % n),
    ("STOMP", "SUBSCRIBE to a topic"): stomp(lambda n: b"SUBSCRIBE\nid:%d\ndestination:/topic/a\n\n\0" % n),
    ("STOMP", "SUBSCRIBE with a long selector"): stomp(
        lambda n: b"SUBSCRIBE\nid:%d\ndestination:/topic/a\nselector:%b\n\n\0" % (n, selector(n).encode())
    ),
    ("STOMP", "SUBSCRIBE with a selector"): stomp(
        lambda n: b"SUBSCRIBE\nid:%d\ndestination:/queue/a\nselector:a='%d'\n\n\0" % (n, n)
    ),
    ("STOMP", "UNSUBSCRIBE in any order"): lambda node: over_tcp(node, shuffled_ends()),
    ("STOMP", "UNSUBSCRIBE with a selector"): lambda node: over_tcp(
        node, shuffled_ends(b"selector:a = 'b' OR c LIKE 'd%'\n")
    ),
    ("STOMP", "BEGIN"): stomp(lambda n: b"BEGIN\ntransaction:%d\n\n\0" % n, connect=LENIENT),
    ("STOMP", "BEGIN and COMMIT"): stomp(
        lambda n: b"BEGIN\ntransaction:%d\n\n\0COMMIT\ntransaction:%d\n\n\0" % (n, n)
    ),
    ("STOMP", "BEGIN and ABORT"): stomp(
        lambda n: b"BEGIN\ntransaction:%d\n\n\0ABORT\ntransaction:%d\n\n\0" % (n, n)
    ),
    ("STOMP", "COMMIT of nothing"): stomp(lambda n: b"COMMIT\ntransaction:%d\n\n\0" % n, connect=LENIENT),
    ("STOMP", "a COMMIT of ACK of nothing"): stomp(
        lambda n: b"ACK\nid:%d\ntransaction:t\n\n\0" % n,
        before=b"BEGIN\ntransaction:t\n\n\0",
        after=b"COMMIT\ntransaction:t\n\n\0",
        connect=LENIENT,
    ),
    ("STOMP", "ACK of nothing"): stomp(lambda n: b"ACK\nid:%d\n\n\0" % n),
    ("STOMP", "ACK of nothing, again and again"): stomp(lambda n: b"ACK\nid:%d\n\n\0" % n, connect=LENIENT),
    ("STOMP", "SEND that is refused"): stomp(lambda n: b"SEND\ndestination:/x/%d\n\n\0" % n, connect=LENIENT),
    ("STOMP", "line feeds"): stomp(lambda n: b"\n" * 1_000),
    ("STOMP", "header lines"): stomp(
        lambda n: b"SEND\ndestination:/queue/a\n" + b"".join(b"h%d:\n" % i for i in range(80)) + b"\n\0"
    ),
    ("STOMP", "browse"): stomp(
        lambda n: b"SUBSCRIBE\nid:%d\ndestination:/queue/a\nbrowser:true\n\n\0" % n,
        before=b"SEND\ndestination:/queue/a\n\n\0" * 100,
    ),
    ("WebSocket", "SEND to one queue"): over_web_socket(lambda n: b"SEND\ndestination:/queue/a\n\n\0"),
    ("WebSocket", "SUBSCRIBE with a long selector"): over_web_socket(
        lambda n: b"SUBSCRIBE\nid:%d\ndestination:/topic/a\nselector:%b\n\n\0" % (n, selector(n).encode())
    ),
    ("WebSocket", "frames of one byte"): in_frames(small_messages(b"\n", 0x82)),
    ("WebSocket", "empty frames"): in_frames(small_messages(b"", 0x82)),
    ("WebSocket", "fragments"): in_frames(b"\x02" + small_messages(b"\n", 0x00)[1:]),
    ("WebSocket", "pings"): in_frames(small_messages(b"", 0x89)),
    ("WebSocket", "SEND in small frames"): in_frames(
        small_messages(b"SEND\ndestination:/queue/a\n\n\0", 0x82)
    ),
    ("HTTP", "requests"): raw_http(b"", GET),
    ("HTTP", "header lines"): raw_http(GET[:-2], b"a:\r\n", b"\r\n"),
    ("HTTP", "short chunks"): raw_http(CHUNKED, b"1\r\na\r\n", b"0\r\n\r\n"),
    ("HTTP", "trailers"): raw_http(CHUNKED + b"0\r\n", b"a:\r\n", b"\r\n"),
    ("JSON", "ping"): in_json(lambda n: {"op": "ping"}),
    ("JSON", "subscribe to a queue"): in_json(lambda n: {"op": "subscribe", "id": f"{n}", "queue": "a"}),
    ("JSON", "notifications"): in_json(
        lambda n: {"op": "subscribe", "id": f"{n}", "queue": f"a.{n}", "mode": "notify"}
    ),
    ("JSON", "subscribe with a long selector"): in_json(
        lambda n: {"op": "subscribe", "id": f"{n}", "topic": "a", "selector": selector(n)}
    ),
    ("JSON", "register"): in_json(lambda n: {"op": "register", "service": f"s{n}"}),
    ("JSON", "ack of nothing"): in_json(lambda n: {"op": "ack", "receipt": f"{n}"}),
    ("REST", "publish 1 MiB"): rest("POST", "/queues/a/messages", lambda: bytes(MIB)),
    ("REST", "batch of lines"): rest(
        "POST",
        "/queues/a/messages/batch",
        lambda: filled(lambda n: b'{"body":"x"}\n'),
        content_type="application/x-ndjson",
    ),
    ("REST", "batch in JSON"): rest(
        "POST",
        "/queues/a/messages/batch",
        lambda: json.dumps([{"body": "x" * 1_000}] * 1_000).encode(),
        content_type="application/json",
    ),
    ("REST", "CloudEvents"): rest(
        "POST",
        "/queues/a/messages",
        lambda: json.dumps(
            [{"specversion": "1.0", "id": f"{n}", "source": "/s", "type": "t"} for n in range(1_000)]
        ).encode(),
        content_type="application/cloudevents-batch+json",
    ),
    ("REST", "a CloudEvent of 1 MiB"): rest(
        "POST",
        "/queues/a/messages",
        lambda: json.dumps({**EVENT, "data": "x" * MIB}).encode(),
        content_type="application/cloudevents+json",
    ),
    ("REST", "CloudEvents of 1 KiB"): rest(
        "POST",
        "/queues/a/messages",
        lambda: json.dumps([{**EVENT, "data": {"a": ["x"] * 200}}] * 1_000).encode(),
        content_type="application/cloudevents-batch+json",
    ),
    ("REST", "a CloudEvent of attributes"): rest(
        "POST",
        "/queues/a/messages",
        lambda: json.dumps({**EVENT, **{f"a{n}": "" for n in range(MIB // 13)}}).encode(),
        content_type="application/cloudevents+json",
    ),
    ("REST", "rows in bulk"): bulk,
    ("REST", "rows with envelopes of their own"): bulk_of_envelopes,
    ("REST", "browse by a long selector"): over_messages(f"selector={LONG}"),
    ("REST", "browse by a long selector, 20 at once"): over_messages(f"selector={LONG}", together=20),
    ("REST", "browse by a text, 20 at once"): over_messages("q=" + "x" * 1_000, together=20),
    ("REST", "browse by conditions"): over_messages("where=" + quote(" ".join(["header.a:b"] * 30))),
    ("REST", "receive with long selectors"): receive_with_selectors,
    ("REST", "settle"): settle,
    ("REST", "purge of many messages"): then(
        stomp(lambda n: b"SEND\ndestination:/queue/a\n\n\0"), "DELETE", "/queues/a/messages?all=true"
    ),
    ("REST", "deletion of a queue with many messages"): then(
        stomp(lambda n: b"SEND\ndestination:/queue/a\n\n\0"), "DELETE", "/queues/a?force=true"
    ),
    ("REST", "a job of 1 MiB of ids"): rest(
        "POST",
        "/jobs",
        lambda: json.dumps({"op": "purge", "source": "a", "filter": {"ids": ["x" * 100] * 10_000}}).encode(),
        content_type="application/json",
    ),
    ("REST", "every operation: nesting"): every_operation(lambda schema: b"[" * MIB),
    ("REST", "every operation: nested members"): every_operation(lambda schema: b'{"a":' * (MIB // 5)),
    ("REST", "every operation: a text"): every_operation(
        lambda schema: json.dumps({next(iter(schema.get("properties", "x"))): "x" * MIB}).encode()
    ),
    ("REST", "every operation: members"): every_operation(
        lambda schema: json.dumps({f"a{n}": 1 for n in range(MIB // 12)}).encode()
    ),
    ("REST", "every operation: its lists"): every_operation(long_lists),
    (OF_ALL, "list"): over_queues(rest("GET", "/queues")),
    (OF_ALL, "list by depth"): over_queues(rest("GET", "/queues?limit=200&sort=-depth")),
    (OF_ALL, "list by name"): over_queues(rest("GET", "/queues?q=9&limit=200")),
    (OF_ALL, "a page of one"): over_queues(rest("GET", "/queues/many.7/messages")),
    (OF_ALL, "metrics"): over_queues(rest("GET", "/metrics", user=ADMIN)),
    (OF_ALL, "metrics of each"): over_queues(rest("GET", "/metrics/detailed", user=ADMIN)),
    (OF_ALL, "statistics"): over_queues(rest("GET", "/stats")),
    (OF_ALL, "$mom with its state"): over_queues(
        lambda node: over_tcp(node, b"SUBSCRIBE\nid:1\ndestination:/topic/$mom.>\nsnapshot:true\n\n\0")
    ),
}
