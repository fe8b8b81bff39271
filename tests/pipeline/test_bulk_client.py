"""The client of bulk publishing repeats what is worth repeating, and names what is not."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import pytest
from pyspark.sql.datasource import WriterCommitMessage

from mom_pipeline.errors import FAILED, TEMPORARY
from mom_pipeline.spark.explain import explain
from pyspark_mom.bulk_client import BulkClient, Stage
from pyspark_mom.errors import AccessDenied, BrokerUnreachable, NoRoom, RowsRefused, StagesLost
from pyspark_mom.sink import BulkStreamWriter, BulkWriter, Staged
from pyspark_mom.sink_options import DEAD_LETTER, SinkOptions
from pyspark_mom.sink_rows import RequestPart

#: an answer: status, body and headers; None closes the connection instead
Answer = tuple[int, dict[str, Any], dict[str, str]] | None

STAGED: Answer = (200, {"rows": 1, "dead_letters": 0, "refused": []}, {})
PUBLISHED: Answer = (200, {"published": 1, "duplicate": False}, {})
PART = RequestPart(b"rows", 1)
ID = "1b4e28ba-2fa1-41d2-883f-0016d3cca427"


class Asked(NamedTuple):
    """A request that came."""

    path: str
    body: bytes
    authorization: str | None
    content_type: str


class Server(ThreadingHTTPServer):
    """Answers requests one after the other as a test says, and the last of these for ever."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: list[Answer] = []
        self.asked: list[Asked] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        sent = Asked(self.path, body, self.headers["authorization"], self.headers["content-type"])
        self.server.asked.append(sent)
        answers = self.server.answers
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if answer is None:
            self.close_connection = True
            return
        status, facts, headers = answer
        content = json.dumps(facts).encode()
        self.send_response(status)
        for name, value in {"content-length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


class Clock:
    """Time that passes only when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


MakeClient = Callable[..., BulkClient]


@pytest.fixture
def client(server: Server, clock: Clock) -> Iterator[MakeClient]:
    with ExitStack() as made:

        def make(**options: Any) -> BulkClient:
            options = {"url": server.url, **options}
            sink = BulkClient(SinkOptions(**options), clock=clock, sleep=clock.sleep)
            made.callback(sink.close)
            return sink

        yield make


def test_a_part_and_a_commit_are_sent_as_the_protocol_describes(
    server: Server, client: MakeClient, clock: Clock
) -> None:
    server.answers = [(200, {"rows": 1, "dead_letters": 1, "refused": []}, {}), PUBLISHED]
    sink = client(on_error=DEAD_LETTER)
    assert sink.stage(ID, 3, PART) == 1
    assert sink.commit("query", 7, [Stage(ID, 4, 9)]) is True
    staged, committed = server.asked
    assert staged.path == f"/api/v1/bulk/stage?id={ID}&seq=3&on_error=dead_letter"
    assert (staged.body, staged.content_type) == (b"rows", "application/vnd.mom.rows")
    assert committed.path == "/api/v1/bulk/commit"
    assert json.loads(committed.body) == {
        "producer": "query", "batch": 7, "stages": [{"id": ID, "parts": 4, "rows": 9}],
    }  # fmt: skip


def test_a_batch_that_was_published_before_is_no_error(
    server: Server, client: MakeClient, clock: Clock
) -> None:
    server.answers = [(200, {"published": 0, "duplicate": True}, {})]
    assert client().commit("query", 7, []) is False


@pytest.mark.parametrize(("secret", "sent"), [("mom_x", "Bearer mom_x"), ("u:p", "Basic dTpw")])
def test_the_credential_is_read_where_it_is_used(
    server: Server, client: MakeClient, clock: Clock, monkeypatch: pytest.MonkeyPatch, secret: str, sent: str
) -> None:
    server.answers = [STAGED]
    sink = client(credential="MOM_SINK")
    with pytest.raises(AccessDenied, match="MOM_SINK is not set"):
        sink.stage(ID, 0, PART)
    monkeypatch.setenv("MOM_SINK", secret)
    sink.stage(ID, 0, PART)
    assert [asked.authorization for asked in server.asked] == [sent]


def test_a_busy_broker_is_tried_again_when_it_asks_for_it(
    server: Server, client: MakeClient, clock: Clock
) -> None:
    server.answers = [
        (503, {"detail": "full"}, {"retry-after": "5"}),
        (429, {}, {"retry-after": "600"}),
        (502, {}, {}),
        STAGED,
    ]
    client(retry_s=1_000).stage(ID, 0, PART)
    assert len(server.asked) == 4
    assert clock.slept[:2] == [5.0, 60.0], "and not longer than a minute"
    assert clock.slept[2] < 1.0


def test_a_connection_that_breaks_is_opened_again(server: Server, client: MakeClient, clock: Clock) -> None:
    server.answers = [STAGED, None, None, PUBLISHED]
    sink = client()
    sink.stage(ID, 0, PART)
    assert sink.commit("query", 0, []) is True
    assert len(server.asked) == 4


def test_a_broker_that_stays_away_is_given_up(server: Server, client: MakeClient, clock: Clock) -> None:
    server.answers = [(503, {"detail": "the broker is stopping"}, {})]
    with pytest.raises(
        BrokerUnreachable, match=r"for 30 seconds \(retrySeconds\): 503 the broker is stopping"
    ):
        client(retry_s=30).stage(ID, 0, PART)
    assert 20 < clock.now <= 30
    server.answers = [None]
    with pytest.raises(BrokerUnreachable, match="did not answer"):
        client(retry_s=0).stage(ID, 0, PART)


def test_a_queue_that_stays_full_is_no_broker_that_is_away(
    server: Server, client: MakeClient, clock: Clock
) -> None:
    full = {"type": "/problems/queue-full", "detail": "/queue/a has no room for all 5 messages"}
    server.answers = [(503, full, {})]
    with pytest.raises(
        NoRoom, match=r"\[NO_ROOM\] .* for 30 seconds \(retrySeconds\): 503 /queue/a has"
    ) as raised:
        client(retry_s=30).commit("query", 0, [])
    assert 20 < clock.now <= 30
    assert explain(raised.value).code == TEMPORARY
    server.answers = [(503, {**full, "fits": False}, {})]
    with pytest.raises(NoRoom, match="maxRowsPerTrigger"):
        client(retry_s=30).commit("query", 0, [])
    assert clock.now <= 30, "a batch that never fits is not sent again"


def test_a_batch_without_rows_is_not_committed(server: Server) -> None:
    options = SinkOptions(url=server.url, destination="/queue/a", producer="query")
    empty: list[WriterCommitMessage | None] = [Staged(Stage(ID, 0, 0), "query"), None]
    BulkStreamWriter(options).commit(empty, 3)
    BulkWriter(options).commit(empty)
    assert server.asked == []


ROW = {"pointer": "/rows/1", "row": 1, "destination": "/queue/b", "detail": "no", "code": "x"}


@pytest.mark.parametrize(
    ("status", "error", "text"),
    [
        (400, RowsRefused, "onError=deadLetter"),
        (413, RowsRefused, "onError=deadLetter"),
        (403, AccessDenied, "needs the right to send"),
        (401, AccessDenied, "needs the right to send"),
    ],
)
def test_what_would_be_refused_again_is_an_error_at_once(
    server: Server, client: MakeClient, clock: Clock, status: int, error: type[Exception], text: str
) -> None:
    first = "2 of 4 rows were refused, and none is staged. Row 1 to /queue/b: no"
    server.answers = [(status, {"detail": first, "errors": [ROW, {**ROW, "row": 3}]}, {})]
    with pytest.raises(error, match="2 of 4 rows were refused, and none is staged") as raised:
        client().stage(ID, 0, PART._replace(first_row=10_000))
    assert "staged: row 10001 to /queue/b: no; row 10003 to /queue/b: no." in str(raised.value)
    assert str(raised.value).count("/queue/b: no") == 2, "each stands once"
    assert text in str(raised.value)
    assert clock.slept == []


@pytest.mark.parametrize(("status", "facts"), [(404, {}), (409, {"restage": True})])
def test_stages_that_are_lost_have_their_batch_written_again(
    server: Server, client: MakeClient, clock: Clock, status: int, facts: dict[str, Any]
) -> None:
    server.answers = [(status, {"detail": "there is no stage x. Stage the rows again", **facts}, {})]
    with pytest.raises(StagesLost, match=r"batch 7 of query was not published: .* Stage the rows again"):
        client().commit("query", 7, [Stage(ID, 1, 1)])


def test_a_producer_of_another_user_is_refused_for_good(
    server: Server, client: MakeClient, clock: Clock
) -> None:
    server.answers = [(409, {"detail": "the producer query belongs to the user bob; take another name"}, {})]
    with pytest.raises(
        RowsRefused, match="of query was not published: 409 the producer query belongs"
    ) as raised:
        client().commit("query", 7, [Stage(ID, 1, 1)])
    failure = explain(raised.value)
    assert (failure.code, failure.fix) == (FAILED, "")
    assert failure.what.endswith("belongs to the user bob; take another name")


def test_an_abort_is_tried_once_and_never_an_error(
    server: Server, client: MakeClient, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    server.answers = [None]
    client().abort([ID])
    assert "removes them after an hour" in caplog.text
    client().abort([])
    assert len(server.asked) == 1
