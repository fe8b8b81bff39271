"""A journal is read over HTTP as it is read from files, through all that can happen on the way."""

from __future__ import annotations

import json
import logging
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import mom_client.blocking
from pyspark_mom.credentials import Credential
from pyspark_mom.errors import (
    AccessDenied,
    BrokerUnreachable,
    DataLoss,
    InvalidOption,
    JournalReplaced,
    JournalUnreadable,
    MomError,
)
from pyspark_mom.options import parse
from pyspark_mom.ranges import Range, checked
from pyspark_mom.tls import Tls
from pyspark_mom.transport import Journal, StoredFrame, open_journal
from pyspark_mom.transport.http import HttpJournal
from tests.pipeline.stage import BROKER, JournalStage, frames_of, read_rows
from tests.pipeline.test_brokers import ALL, publish, stream_of
from tests.support.authority import Authority
from tests.support.node_process import NodeProcess, Nodes, nodes_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECRET = "MOM_TEST_CREDENTIAL"

#: opens the journal that options name
Open = Callable[[dict[str, str]], Journal]


@pytest.fixture(scope="module")
def nodes(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with nodes_in(tmp_path_factory.mktemp("nodes")) as made:
        yield made


@pytest.fixture
def node(
    nodes: Nodes, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[NodeProcess]:
    found = nodes.node(request.node.name)
    found.start()
    monkeypatch.setenv(SECRET, f"{found.user}:{found.password}")
    yield found
    if found.running:
        found.kill()


def client_of(node: NodeProcess) -> mom_client.blocking.Client:
    address = f"stomp://{node.host}:{node.stomp_port}"
    return mom_client.blocking.connect(address, login=node.user, passcode=node.password)


def work(node: NodeProcess, count: int) -> None:
    """Send messages and consume a half of them."""
    with client_of(node) as client:
        for number in range(count):
            client.send("/queue/a", f"{number}", correlation_id=f"c{number}")
        with client.subscribe("/queue/a") as messages:
            for _ in range(count // 2):
                client.ack(messages.get(10), confirm=True)


@pytest.fixture
def opened() -> Iterator[Open]:
    """Opens journals by options, and closes them at the end."""
    with ExitStack() as cleanup:
        yield lambda given: cleanup.enter_context(closing(open_journal("A", parse(given))))


def http(node: NodeProcess, **given: str) -> dict[str, str]:
    return {"url": node.url, "broker": "A", "credential": SECRET, **given}


def files(node: NodeProcess, **given: str) -> dict[str, str]:
    return {"url": f"file://{node.data}", "broker": "A", **given}


def test_the_rows_are_those_of_the_files(node: NodeProcess) -> None:
    work(node, 50)
    rows = read_rows(parse(http(node)))
    assert rows == read_rows(parse(files(node)))
    assert sorted(row["body"] for row in rows if row["event"] == "ENQUEUE") == sorted(
        b"%d" % number for number in range(50)
    )
    assert sum(row["event"] == "ACK" for row in rows) == 25
    assert read_rows(parse(http(node, minPartitions="7"))) == rows


def test_span_and_times_are_those_of_the_files(node: NodeProcess, opened: Open) -> None:
    work(node, 30)
    over_http, of_files = (opened(given) for given in (http(node), files(node)))
    assert over_http.span() == of_files.span()
    frames = list(of_files.frames(1, of_files.span().end))
    assert list(over_http.frames(1, of_files.span().end)) == frames
    assert list(over_http.frames(5, 9)) == list(of_files.frames(5, 9))
    for found in frames[::5]:
        time_us = found.frame.time_us // 1000 * 1000
        assert over_http.position_at(time_us) == of_files.position_at(time_us)
    assert over_http.position_at(4_000_000_000_000_000) == of_files.span().end


def test_a_secret_is_an_environment_variable_or_a_file_that_may_be_replaced(
    node: NodeProcess, opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "secret"
    file.write_text("admin:wrong\n")
    journal = opened(http(node, credential=str(file)))
    with pytest.raises(AccessDenied, match=r"\[ACCESS_DENIED\] A: 401 .*journal:read"):
        journal.span()
    file.write_text(f"{node.user}:{node.password}\n")
    assert journal.span().low == 1
    with pytest.raises(AccessDenied, match="A: 401"):
        opened({"url": node.url, "broker": "A"}).span()
    monkeypatch.delenv(SECRET)
    with pytest.raises(AccessDenied, match=f"the environment variable {SECRET} is not set in this process"):
        opened(http(node)).span()
    with pytest.raises(AccessDenied, match="/none cannot be read: No such file"):
        opened(http(node, credential=str(tmp_path / "none"))).span()


def test_a_broker_that_starts_again_is_reached_again(node: NodeProcess, opened: Open) -> None:
    work(node, 10)
    journal = opened(http(node))
    before = journal.span()
    node.terminate()
    with pytest.raises(BrokerUnreachable, match=r"\[BROKER_UNREACHABLE\] A: http://.* did not answer"):
        journal.span()
    node.start()
    after = journal.span()
    assert (after.tag, after.low) == (before.tag, before.low)
    assert after.epoch > before.epoch and after.end >= before.end
    node.terminate()
    node.start()
    assert journal.span().tag == before.tag, "a connection that was idle is made again"


def test_a_stream_reports_its_cursor(node: NodeProcess) -> None:
    work(node, 10)
    stream = stream_of({"A": node.url}, cursor="archive:a", credential=SECRET)
    start = stream.initialOffset()
    assert cursor_of(node) == 1
    end = stream.latestOffset(start, ALL)
    stream.prepareForTriggerAvailableNow()
    assert stream.latestOffset(end, ALL) == end
    assert cursor_of(node) == end["A"]["pos"] > 1
    stream.stop()


def test_spark_reads_over_http_and_reports_how_far_it_has_come(
    spark: SparkSession, node: NodeProcess, tmp_path: Path
) -> None:
    work(node, 20)
    # The environment of workers is that of Java, which has started before.
    secret = tmp_path / "secret"
    secret.write_text(f"{node.user}:{node.password}")
    given = http(node, credential=str(secret))
    batch = spark.read.format("mom").options(**given).schema("position bigint, event string").load()
    expected = [(row["position"], row["event"]) for row in read_rows(parse(files(node)))]
    assert [tuple(row) for row in batch.collect()] == expected
    stream = (
        spark.readStream.format("mom")
        .options(**given, cursor="archive:a", startingOffsets="earliest")
        .schema("position bigint, event string")
        .load()
    )
    query = (
        stream.writeStream.format("memory")
        .queryName("over_http")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(60)
    assert [tuple(row) for row in spark.table("over_http").collect()] == expected
    assert cursor_of(node) == expected[-1][0] + 1


def cursor_of(node: NodeProcess) -> int:
    import httpx

    reply = httpx.get(f"{node.url}/api/v1/pipeline/cursors/archive:a", auth=(node.user, node.password))
    position: int = reply.json()["position"]
    return position


# --------------------------------------------------------------------------- a scripted broker


class Answer(NamedTuple):
    """A reply of the scripted broker; `cut` bytes of its body are not sent."""

    status: int
    body: bytes
    cut: int = 0
    media_type: str = "application/json"


class _Quiet(ThreadingHTTPServer):
    """Writes nothing about clients that go away."""

    def handle_error(self, *_: Any) -> None: ...


class Script:
    """A server that gives its answers one after the other, and remembers what was asked."""

    def __init__(self, *answers: Answer) -> None:
        self.asked: list[str] = []
        self.headers: list[dict[str, str]] = []
        #: those that read from it, to be closed
        self.journals: list[HttpJournal] = []
        script, left = self, list(answers)

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                script.asked.append(f"{self.command} {self.path}")
                script.headers.append(dict(self.headers.items()))
                self.rfile.read(int(self.headers.get("content-length", "0")))
                answer = left.pop(0) if len(left) > 1 else left[0]
                self.send_response(answer.status)
                self.send_header("content-type", answer.media_type)
                self.send_header("content-length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body[: len(answer.body) - answer.cut])
                if answer.cut:
                    self.close_connection = True

            do_PUT = do_GET

            def log_message(self, *_: Any) -> None: ...

        self.server = _Quiet(("127.0.0.1", 0), Handler)

    @property
    def port(self) -> int:
        return int(self.server.server_address[1])


@contextmanager
def scripted(*answers: Answer, tls: ssl.SSLContext | None = None) -> Iterator[Script]:
    script = Script(*answers)
    if tls is not None:
        script.server.socket = tls.wrap_socket(script.server.socket, server_side=True)
    thread = threading.Thread(target=script.server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield script
    finally:
        for journal in script.journals:
            journal.close()
        script.server.shutdown()
        thread.join()
        script.server.server_close()


def journal_of(script: Script, scheme: str = "http", path: str = "", **given: Any) -> HttpJournal:
    settings: dict[str, Any] = {"tls": Tls(), "timeout_s": 5.0, **given}
    url = f"{scheme}://127.0.0.1:{script.port}{path}"
    script.journals.append(HttpJournal(BROKER, url, Credential(None), **settings))
    return script.journals[-1]


def span_of(**changes: Any) -> Answer:
    found = {"broker": "x", "journal": "2a9f31c", "epoch": 4, "low": 1, "end": 8, **changes}
    return Answer(200, json.dumps(found).encode())


def stored(stage: JournalStage) -> list[StoredFrame]:
    publish(stage, 6)
    return list(frames_of(stage, 1_000_000))


def frames_answer(frames: list[StoredFrame], cut: int = 0) -> Answer:
    body = b"".join(found.content for found in frames)
    return Answer(200, body, cut, "application/vnd.mom.journal")


BUSY = Answer(503, b'{"type": "busy", "detail": "four replies are being sent already"}')


def test_a_broker_that_is_busy_is_asked_again(stage: JournalStage) -> None:
    frames = stored(stage)
    with scripted(BUSY, BUSY, frames_answer(frames)) as script:
        assert list(journal_of(script).frames(1, 7)) == frames
        assert len(script.asked) == 3
    with scripted(BUSY) as script, pytest.raises(BrokerUnreachable, match="503 four replies are being sent"):
        list(journal_of(script, timeout_s=0.3).frames(1, 7))
    # The plan of a stream has its own rhythm.
    with scripted(BUSY) as script:
        with pytest.raises(BrokerUnreachable):
            journal_of(script).span()
        assert len(script.asked) == 1


def test_a_reply_that_ends_early_is_continued_behind_its_last_frame(stage: JournalStage) -> None:
    frames = stored(stage)
    cut = len(frames[2].content) // 2
    with scripted(
        frames_answer(frames[:3], cut), frames_answer(frames[2:5]), frames_answer(frames[5:])
    ) as script:
        assert list(journal_of(script).frames(1, 7)) == frames
        asked = [line.split("?")[1].split("&")[0] for line in script.asked]
    assert asked == ["from=1", "from=3", "from=6"]


def test_a_frame_that_was_changed_on_the_way_is_noticed(stage: JournalStage) -> None:
    frames = stored(stage)
    body = bytearray(b"".join(found.content for found in frames))
    body[len(frames[0].content) + 90] ^= 1
    changed = Answer(200, bytes(body), 0, "application/vnd.mom.journal")
    with (
        scripted(changed) as script,
        pytest.raises(JournalUnreadable, match="A: the batch at position 2 is damaged"),
    ):
        list(checked(journal_of(script), Range(BROKER, 1, 7, 1, 7), fail_on_loss=True))


def test_positions_that_are_gone_are_left_out_by_the_transport_and_noticed_by_the_check(
    stage: JournalStage,
) -> None:
    frames = stored(stage)
    gone = Answer(410, b'{"type": "history-gone", "low": 4, "end": 7}')
    with scripted(gone, frames_answer(frames[3:])) as script:
        assert list(journal_of(script).frames(1, 7)) == frames[3:]
    with (
        scripted(
            gone, frames_answer(frames[3:]), span_of(low=4, end=7), frames_answer(frames[3:4])
        ) as script,
        pytest.raises(DataLoss, match="A: the positions 1 to 3 are gone from the journal, which begins at"),
    ):
        list(checked(journal_of(script), Range(BROKER, 1, 7, 1, 7), fail_on_loss=True))


def test_a_position_behind_the_end_means_another_journal() -> None:
    with (
        scripted(Answer(409, b'{"detail": "position 7 was never stored"}')) as script,
        pytest.raises(JournalReplaced, match="A: 409 position 7 was never stored"),
    ):
        list(journal_of(script).frames(7, 9))


@pytest.mark.parametrize(
    ("answer", "error", "text"),
    [
        (Answer(404, b"<html>"), JournalUnreadable, "answered 404; the address must be that of a MOM broker"),
        (Answer(302, b""), JournalUnreadable, "answered 302"),
        (Answer(200, b"[]"), JournalUnreadable, "the address must be that of a MOM broker"),
        (Answer(200, b"\xff" * 2_000_000), JournalUnreadable, "the address must be that of a MOM broker"),
        (span_of(journal="xyz"), JournalUnreadable, "answered {'broker'"),
        (Answer(403, b'{"detail": "no"}'), AccessDenied, "403 no; name with credential a token"),
        (BUSY, BrokerUnreachable, "is not ready: 503 four"),
        # as when the broker is killed while it answers
        (span_of()._replace(cut=9), BrokerUnreachable, "9 more expected"),
        (Answer(200, b"{}", cut=2), BrokerUnreachable, "2 more expected"),
    ],
)
def test_a_strange_answer_is_an_error_in_words(answer: Answer, error: type[MomError], text: str) -> None:
    with scripted(answer) as script, pytest.raises(error) as raised:
        journal_of(script).span()
    assert text in str(raised.value) and len(str(raised.value)) < 700


def test_the_address_may_have_a_path_and_a_token_is_sent_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SECRET, "mom_token")
    with scripted(span_of()) as script:
        options = parse({"url": f"http://127.0.0.1:{script.port}/base/", "credential": SECRET})
        journal: Journal = open_journal("mom", options)
        assert journal.span() == (1, 8, 4, 0x2A9F31C)
        journal.close()
        assert script.asked == ["GET /base/api/v1/journal/span"]
        assert script.headers[0]["Authorization"] == "Bearer mom_token"


def test_a_certificate_is_verified(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    files = authority.server()
    server.load_cert_chain(files["tls_cert"], files["tls_key"])
    with scripted(span_of(), tls=server) as script:
        with pytest.raises(AccessDenied, match=r"A: the certificate of https://.* is not trusted: .*caFile"):
            journal_of(script, "https").span()
        trusting = journal_of(script, "https", tls=Tls(str(authority.ca_file)))
        assert trusting.span().end == 8


def test_a_client_certificate_is_shown_where_the_broker_wants_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    files = authority.server()
    server.load_cert_chain(files["tls_cert"], files["tls_key"])
    server.load_verify_locations(authority.ca_file)
    server.verify_mode = ssl.CERT_REQUIRED
    locked = authority.server("client", password="key-secret")
    trusted = {"broker": BROKER, "caFile": str(authority.ca_file)}
    with scripted(span_of(), tls=server) as script, ExitStack() as opened:

        def journal(**given: str) -> Journal:
            url = f"https://127.0.0.1:{script.port}"
            options = parse({**trusted, "url": url, **given})
            return opened.enter_context(closing(open_journal(BROKER, options)))

        with pytest.raises(
            BrokerUnreachable, match="if it wants a certificate of its clients, name one with"
        ):
            journal().span()
        assert journal(certFile=str(authority.user("spark"))).span().end == 8
        shown = {"certFile": str(locked["tls_cert"]), "keyFile": str(locked["tls_key"])}
        with pytest.raises(InvalidOption, match=r"keyCredential: the key .* has a password"):
            journal(**shown).span()
        monkeypatch.setenv(SECRET, "key-secret")
        assert journal(**shown, keyCredential=SECRET).span().end == 8
        monkeypatch.setenv(SECRET, "another")
        with pytest.raises(InvalidOption, match="cannot be used") as refused:
            journal(**shown, keyCredential=SECRET).span()
        assert "another;" not in str(refused.value)


STANDBY = Answer(503, b'{"type": "/problems/not-active", "detail": "A is a standby of B"}')


def test_the_next_address_is_asked_when_a_broker_is_away_or_a_standby(stage: JournalStage) -> None:
    frames = stored(stage)
    with scripted(STANDBY) as standby, scripted(span_of(), frames_answer(frames), STANDBY) as active:
        with socket.create_server(("127.0.0.1", 0)) as closed:
            away = f"http://127.0.0.1:{closed.getsockname()[1]}"
        first, second = (f"http://127.0.0.1:{each.port}" for each in (standby, active))
        options = parse({"url": f"failover:({away},{first},{second})", "broker": BROKER})
        with closing(open_journal(BROKER, options)) as journal:
            assert journal.span().end == 8
            assert list(journal.frames(1, 7)) == frames
            assert (len(standby.asked), len(active.asked)) == (1, 2)  # the one that answered is kept
            with pytest.raises(BrokerUnreachable, match="is not ready: 503 A is a standby of B"):
                journal.span()
    with pytest.raises(BrokerUnreachable, match=f"A: {away} did not answer: .*; {second} did not answer: "):
        open_journal(BROKER, parse({"url": f"{away},{second}", "broker": BROKER})).span()


def test_a_cursor_that_cannot_be_reported_does_not_stop_the_stream(caplog: pytest.LogCaptureFixture) -> None:
    with scripted(span_of(), Answer(500, b'{"detail": "the disk is full"}'), span_of()) as script:
        stream = stream_of({"A": f"http://127.0.0.1:{script.port}"}, cursor="archive")
        with caplog.at_level(logging.WARNING, "pyspark_mom"):
            start = stream.initialOffset()
        assert "the cursor archive is not reported: [BROKER_UNREACHABLE] A: " in caplog.text
        assert script.asked[1] == "PUT /api/v1/pipeline/cursors/archive"
        assert stream.latestOffset(start, ALL)["A"]["pos"] == 8
        stream.stop()
