"""The challenge of a URL before the first push: its receiver has to agree to it.

First comes the handshake of CloudEvents' web hooks: OPTIONS with `WebHook-Request-Origin`, which is answered
with `WebHook-Allowed-Origin`, or later by a request to the address in `WebHook-Request-Callback`. A receiver
without it gets a signed POST with a challenge, and has to answer with the challenge.
"""

from __future__ import annotations

import json
import secrets
import time
from typing import NamedTuple

from broker_app.features.callbacks.webhooks import cloud_event
from broker_app.features.callbacks.webhooks.cloud_event import CHALLENGE_TYPE
from broker_app.features.callbacks.webhooks.sender import Sender
from broker_app.features.callbacks.webhooks.verdict import described
from broker_app.peers.http_client.exchange import HttpAnswer, Unanswered

_ORIGIN, _CONFIRMATION, _ALLOWED = (
    "webhook-request-origin", "webhook-request-callback", "webhook-allowed-origin",
)  # fmt: skip


class ChallengeResult(NamedTuple):
    """`passed` is True if the receiver agrees; else `detail` has its answer, and the right one."""

    passed: bool
    detail: str = ""


async def challenge(sender: Sender, origin: str, source: str, confirmation: str) -> ChallengeResult:
    """Challenge the URL of a callback. `origin` names this broker, `confirmation` is the address of a request
    by which the receiver may agree later, or empty."""
    try:
        answer = await sender.ask("OPTIONS", _handshake(origin, confirmation))
    except Unanswered as error:
        return ChallengeResult(False, error.detail)
    if 200 <= answer.status < 300 and _allows(answer, origin):
        return ChallengeResult(True)
    if answer.status >= 500 and answer.status != 501:
        return ChallengeResult(False, f"to OPTIONS, {described(answer)}")
    return await _echo(sender, source, answer)


async def _echo(sender: Sender, source: str, to_options: HttpAnswer) -> ChallengeResult:
    expected = secrets.token_urlsafe(24)
    event = cloud_event.of_json(
        f"chl_{secrets.token_hex(12)}",
        CHALLENGE_TYPE,
        source,
        sender.callback.address.lstrip("/"),
        time.time(),
        {"challenge": expected},
    )
    done = await sender.try_once(event)
    if done.answer is None:
        return ChallengeResult(False, done.verdict.detail)
    if 200 <= done.answer.status < 300 and _echoed(done.answer.body) == expected:
        return ChallengeResult(True)
    return ChallengeResult(
        False,
        f"to OPTIONS, it answered {to_options.status} without WebHook-Allowed-Origin, and to a POST with a "
        f"challenge {done.answer.status} without the challenge; it has to answer one of them: see "
        "docs/callbacks.md",
    )


def _handshake(origin: str, confirmation: str) -> tuple[tuple[str, str], ...]:
    later = ((_CONFIRMATION, confirmation),) if confirmation else ()
    return ((_ORIGIN, origin), *later)


def _allows(answer: HttpAnswer, origin: str) -> bool:
    allowed = [one.strip() for one in answer.headers.get(_ALLOWED, "").split(",")]
    return "*" in allowed or origin in allowed


def _echoed(body: bytes) -> str:
    """The challenge in an answer: as plain text, or as the member `challenge` of a JSON object."""
    text = body.decode(errors="replace").strip()
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if isinstance(found, dict):
        return str(found.get("challenge"))
    return str(found) if isinstance(found, str) else text
