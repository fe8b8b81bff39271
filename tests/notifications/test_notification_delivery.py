"""Notices of alerts on their way: to a real HTTP server, to a real SMTP server, and when these fail."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from broker_app.base.events import ALERT_FIRED
from broker_app.base.refused import Refused
from broker_app.base.settings.mail_server import MailServer
from broker_app.core.message import Envelope
from broker_app.features.notifications import (
    Mailer,
    Notification,
    NotificationTarget,
    RetryQueue,
    TargetTests,
    target_tests,
    webhook,
)
from broker_app.features.notifications.delivery import deliver, notification_of, targets
from broker_app.features.notifications.retry_queue import MOST
from broker_app.telemetry.alerts import DEFAULT_RULES, Alert, AlertEvent, AlertRule
from tests.support.patience import patient

ALERT = Alert("1f", "store", "store", "critical", "store", 80, 1_800_000_000, 1_800_000_060, 81.5)
TOLD = notification_of(AlertEvent(ALERT_FIRED, ALERT), "b1", "https://mom.example/console/")


class Web:
    """A receiver of webhooks that answers as the test sets."""

    def __init__(self) -> None:
        self.answers: list[bytes] = []
        self.taken: list[tuple[str, dict[str, Any]]] = []
        self.came = asyncio.Event()
        self.served: set[asyncio.Task[Any] | None] = set()
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.served.add(asyncio.current_task())
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = int(head.lower().partition("content-length: ")[2].partition("\r\n")[0])
        self.taken.append((head, json.loads(await reader.readexactly(length))))
        answer = self.answers.pop(0) if self.answers else b"HTTP/1.1 204 No Content\r\n\r\n"
        self.came.set()
        if answer == b"silence":
            await reader.read()  # until the other side has had enough
        else:
            writer.write(answer)
        writer.close()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Web]:
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hooks/mom?key=7"
        async with server:
            yield self
            await asyncio.gather(*(task for task in self.served if task is not None))


class Mail:
    """A server that takes mail, and refuses the addresses that the test sets."""

    def __init__(self) -> None:
        self.letters: list[str] = []
        self.refuses = ""
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 here\r\n")
        while line := (await reader.readline()).decode().rstrip():
            word = line.split(maxsplit=1)[0].upper()
            if word == "DATA":
                writer.write(b"354 go on\r\n")
                self.letters.append((await reader.readuntil(b"\r\n.\r\n")).decode())
            if self.refuses and word == "RCPT" and self.refuses in line:
                writer.write(b"550 no such person\r\n")
            else:
                writer.write(b"221 bye\r\n" if word == "QUIT" else b"250 fine\r\n")
            if word == "QUIT":
                break
        writer.close()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Mail]:
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        async with server:
            yield self


class Queues:
    """The messages that the broker publishes; `refusal` refuses them."""

    def __init__(self, refusal: Refused | None = None) -> None:
        self.published: list[tuple[str, Any]] = []
        self.refusal = refusal

    async def publish_confirmed(self, envelope: Envelope, body: bytes) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.published.append((envelope.address, json.loads(body)))


async def test_a_webhook_gets_the_alert_as_json() -> None:
    async with Web().running() as web:
        await deliver(NotificationTarget.of(web.url), TOLD, Queues(), Mailer())
    head, body = web.taken[0]
    assert head.startswith("POST /hooks/mom?key=7 HTTP/1.1\r\n")
    assert "Mom-Notification: 1f-fired\r\n" in head
    assert (body["event"], body["broker"], body["alert"]["detail"]) == (
        "fired",
        "b1",
        "Store usage: 81.5 %",
    )
    assert body["link"] == "https://mom.example/console/?at=2027-01-15T08%3A00%3A00Z"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"HTTP/1.1 500 No\r\n\r\n", "it answers 500"),
        (
            b"HTTP/1.1 302 Go\r\nLocation: http://elsewhere/\r\n\r\n",
            "redirect to 'http://elsewhere/', which is not",
        ),
        (b"220 mail.example\r\n", "its answer is no valid HTTP"),
    ],
)
async def test_a_refusal_of_a_webhook_is_reported_and_a_redirect_is_not_followed(
    answer: bytes, said: str
) -> None:
    async with Web().running() as web:
        web.answers = [answer]
        with pytest.raises(ValueError, match=said.replace("(", "\\(")):
            await webhook.post(web.url, b"{}", {})
    assert len(web.taken) == 1


async def test_a_webhook_that_answers_with_nothing_is_reported() -> None:
    async with Web().running() as web:
        web.answers = [b""]
        with pytest.raises(OSError, match="it closed the connection before it had answered"):
            await webhook.post(web.url, b"{}", {})


async def test_a_webhook_that_stays_silent_is_not_waited_for_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(webhook, "TIMEOUT_S", 0.2)
    async with Web().running() as web:
        web.answers = [b"silence"]
        with pytest.raises(OSError, match=r"there was no complete answer within 0\.2 s"):
            await webhook.post(web.url, b"{}", {})


async def test_an_answer_before_the_final_one_is_passed_over() -> None:
    async with Web().running() as web:
        web.answers = [b"HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 200 Fine\r\n\r\n"]
        await webhook.post(web.url, b"{}", {})


async def test_mail_contains_the_alert_and_a_link() -> None:
    async with Mail().running() as mail:
        post = Mailer(MailServer("127.0.0.1", mail.port, sender="mom@b1.example"))
        await deliver(NotificationTarget.of("mailto:ops@example.org"), TOLD, Queues(), post)
    letter = mail.letters[0]
    assert "From: mom@b1.example\r\nTo: ops@example.org\r\n" in letter
    assert "Subject: [b1] critical: Store usage: 81.5 %\r\n" in letter
    assert "look    https://mom.example/console/?at=" in letter


async def test_a_mail_server_that_refuses_or_is_not_configured_is_reported() -> None:
    target = NotificationTarget.of("mailto:ops@example.org")
    async with Mail().running() as mail:
        mail.refuses = "ops@"
        with pytest.raises(OSError, match="no such person"):
            await deliver(target, TOLD, Queues(), Mailer(MailServer("127.0.0.1", mail.port)))
    with pytest.raises(ValueError, match="setting smtp names"):
        await deliver(target, TOLD, Queues(), Mailer())


async def test_a_queue_of_the_broker_gets_it_as_a_message() -> None:
    queues = Queues()
    await deliver(NotificationTarget.of("queue:ops.alerts"), TOLD, queues, Mailer())
    assert [(address, body["event"]) for address, body in queues.published] == [
        ("/queue/ops.alerts", "fired")
    ]


async def test_a_refusal_of_a_queue_is_reported() -> None:
    full = Queues(Refused("at-limit", "/queue/ops.alerts is full"))
    with pytest.raises(ValueError, match="is full"):
        await deliver(NotificationTarget.of("queue:ops.alerts"), TOLD, full, Mailer())


async def test_a_test_sends_each_target_one_message_and_shows_its_answer() -> None:
    queues = Queues()
    async with Web().running() as web, Mail().running() as mail:
        web.answers = [b"HTTP/1.1 503 Later\r\n\r\n"]
        mail.refuses = "nobody@"
        mailer = Mailer(MailServer("127.0.0.1", mail.port))
        tests = TargetTests(
            lambda target, told: deliver(target, told, queues, mailer), "b1", "https://mom/console/"
        )
        targets = ["queue:ops.alerts", web.url, "mailto:ops@example.org", "mailto:nobody@example.org"]
        found = await tests.run(targets, "admin")
    assert [one["target"] for one in found] == targets
    assert [one["ok"] for one in found] == [True, False, True, False]
    assert (found[1]["detail"], found[0]["detail"]) == ("it answers 503", "")
    assert "no such person" in found[3]["detail"]
    body = {"event": "test", "broker": "b1", "link": "https://mom/console/alerts/", "alert": None}
    assert queues.published == [("/queue/ops.alerts", body)]
    assert [sent for _, sent in web.taken] == [body]  # and no second attempt
    assert "Subject: [b1] test of notifications\r\n" in mail.letters[0]


async def test_a_target_that_never_answers_ends_its_test_and_a_third_test_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    silent = asyncio.Event()

    async def wait(target: NotificationTarget, told: Notification) -> None:
        await silent.wait()

    tests = TargetTests(wait, "b1", None)
    running = [asyncio.create_task(tests.run(["queue:a"], "admin")) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(Refused, match="there are 2 tests of notifications already"):
        await tests.run(["queue:a"], "admin")
    silent.set()
    assert [found[0]["ok"] for found in await asyncio.gather(*running)] == [True, True]
    silent.clear()
    monkeypatch.setattr(target_tests, "TIMEOUT_S", 0.01)
    assert (await tests.run(["queue:a"], "admin"))[0]["detail"] == "there was no answer within 0.01 s"
    with pytest.raises(ValueError, match="must begin with queue:"):
        await tests.run(["ftp://host"], "admin")


async def test_a_failed_notification_is_repeated_until_it_is_accepted() -> None:
    gave_up: list[str] = []
    async with Web().running() as web:
        web.answers = [b"HTTP/1.1 503 Later\r\n\r\n"] * 2
        outbox = RetryQueue(
            lambda target, told: deliver(target, told, Queues(), Mailer()),
            lambda target, told, fault: gave_up.append(fault),
            delays_s=(0.01, 0.01, 60.0),
        )
        outbox.put(NotificationTarget.of(web.url), TOLD)
        async with asyncio.timeout(patient(10)):
            while len(web.taken) < 3:
                web.came.clear()
                await web.came.wait()
        await outbox.stop()
    assert gave_up == []


async def test_a_notification_that_fails_for_ever_is_given_up_and_the_queue_is_bounded() -> None:
    gave_up: list[str] = []
    done = asyncio.Event()

    async def refuse(target: NotificationTarget, told: Notification) -> None:
        raise OSError("no server there")

    def hear(target: NotificationTarget, told: Notification, fault: str) -> None:
        gave_up.append(fault)
        done.set()

    target = NotificationTarget.of("queue:a")
    outbox = RetryQueue(refuse, hear, delays_s=(0.0,))
    outbox.put(target, TOLD)
    await asyncio.wait_for(done.wait(), patient(10))
    assert gave_up == ["no server there"]
    slow = RetryQueue(refuse, hear, delays_s=(60.0,))
    for _ in range(MOST + 2):
        slow.put(target, TOLD)
    assert gave_up[1:] == [f"{MOST} notifications are pending already"] * 2
    await slow.stop()


@pytest.mark.parametrize(
    "text",
    [
        "ops", "queue:", "queue:a\nb", "ftp://host/", "http:///path", "https://user:secret@host/", "http://host:99999/",
        "https://host/a b", "mailto:", "mailto:a@b@c", "mailto:a@b\r\nBcc: x@y", "https://host/" + "x" * 1000,
    ],
)  # fmt: skip
def test_an_invalid_target_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"must|does not|needed|remove user"):
        NotificationTarget.of(text)


def test_targets_come_from_the_rule_or_the_setting_and_a_silenced_alert_has_none() -> None:
    own = AlertRule.of(
        "store",
        {"condition": "store", "threshold": 1, "for_s": 0, "severity": "warning", "notify": ["queue:b"]},
    )
    everybody = ("queue:a",)
    assert [target.where for target in targets(ALERT, [own], everybody)] == ["/queue/b"]
    assert [target.where for target in targets(ALERT, list(DEFAULT_RULES.values()), everybody)] == [
        "/queue/a"
    ]
    silent = Alert("2", "store", "store", "critical", "store", 80, 0, 0, 90, until=5.0)
    assert list(targets(silent, [own], everybody)) == []
