"""The interface of plug-ins: the types that functions of reflexes take and return.

A function decides about one thing at a time:

    from broker_app.reflex.api import Message, Verdict, accept, refuse

    def only_small(message: Message) -> Verdict:
        if len(message.body) > 1_000:
            return refuse("at most 1,000 bytes")
        return accept(headers={"size": str(len(message.body))})

| kind of declaration | parameters | may return |
|---|---|---|
| arrival | message, options | a verdict |
| delivery | message, options | a verdict without changed headers |
| registration | registration, options | a verdict, with marks |
| deregistration | registration, options | nothing |
| service | message, answer, options | nothing, the body of the answer, or a refusal |
| channel | channel, parts, need_response, options | nothing: `channel.send_msg(parts)` answers |

`options` is what the declaration has under that name; a function that does not need it leaves it out. Instead
of a verdict, `True`, 1 and `None` accept, `False` and 0 refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pluggy

from broker_app.reflex.registration import Registration as Registration

#: the group of entry points by which packages offer libraries, and the name of the pluggy project
GROUP = "mom.reflexes"
hookspec = pluggy.HookspecMarker(GROUP)
hookimpl = pluggy.HookimplMarker(GROUP)

Function = Callable[..., Any]


class Hooks:
    """Hooks of a library, all optional. They run in the process of the library."""

    @hookspec(firstresult=True)
    def mom_functions(self) -> Mapping[str, Function]:  # type: ignore[empty-body]
        """The functions by name. Without this hook they are the public functions that the module defines."""

    @hookspec
    def mom_started(self, library: str) -> None:
        """Called once before the first function."""

    @hookspec
    def mom_stopping(self) -> None:
        """Called when the process ends in good order; it has one second."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message on its way.

    `service` is the name of its queue or topic, `destination` its whole address (`/queue/stock`), `type` the
    header of that name. `user` sends it; of a delivery, `user` receives it. `id` and `attempt` are known of
    deliveries only."""

    service: str
    destination: str
    type: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    user: str = ""
    id: str = ""
    attempt: int = 1

    @property
    def text(self) -> str:
        """The body as UTF-8. Raises UnicodeDecodeError."""
        return self.body.decode()


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message to be published together with the one that was accepted. Filters do not see it."""

    destination: str
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Answer:
    """The answer of a local service. It is sent to the `reply-to` of the message when `body` is set."""

    body: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A decision. `headers` are changes: a text sets a header, None removes it. `retry_s` are the seconds
    after which a refused sender may try again."""

    accepted: bool
    reason: str = ""
    headers: Mapping[str, str | None] = field(default_factory=dict)
    messages: tuple[NewMessage, ...] = ()
    marks: frozenset[str] = frozenset()
    retry_s: float = 0.0
    facts: Mapping[str, str] = field(default_factory=dict)


ACCEPT = Verdict(True)


def service_of(address: str) -> str:
    """The name of a queue or topic in its address."""
    return address.split("/", 2)[-1]


def accept(
    *,
    headers: Mapping[str, str | None] | None = None,
    messages: Iterable[NewMessage] = (),
    marks: Iterable[str] = (),
) -> Verdict:
    """Accept; with other headers, together with further messages, or with marks on a registration."""
    return Verdict(True, headers=headers or {}, messages=tuple(messages), marks=frozenset(marks))


def refuse(reason: str, *, retry_s: float = 0.0, facts: Mapping[str, str] | None = None) -> Verdict:
    """Refuse. The sender receives the reason, and `facts` as members of the problem."""
    return Verdict(False, reason, retry_s=retry_s, facts=facts or {})
