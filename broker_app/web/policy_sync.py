"""The node in this process: asked from the threads of requests, and waited for until it obeys a change.

No request that changed the configuration is answered before: what it made works with the very next request,
on any plane.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar, cast

from django.http import HttpRequest, JsonResponse
from django.http.response import HttpResponseBase
from rest_framework.request import Request

from broker_app.base.refused import Refused
from broker_app.net.http.refusals import body_of, status_of
from broker_app.web.actions import policy_changed

if TYPE_CHECKING:  # pages are served without a node, too
    from django.utils.functional import _StrPromise as StrPromise

    from broker_app.node.node import Node

_T = TypeVar("_T")

log = logging.getLogger(__name__)

#: a node that has not answered by then is busy
_ANSWERS_S = 5.0
#: a node that has not applied the policy by then is unresponsive; it applies it when it continues
_APPLIES_S = 60.0
#: versions that the request in hand has made
_made: ContextVar[list[int] | None] = ContextVar("made", default=None)


def node_of(request: Request | HttpRequest) -> Node | None:
    """The node in this process; None if pages are served without a broker."""
    return cast("Node | None", getattr(getattr(request, "_request", request), "scope", {}).get("mom.node"))


def ask(node: Node, question: Coroutine[Any, Any, _T], within_s: float = _ANSWERS_S) -> _T:
    """Run a coroutine of the node from another thread, and return its result. Raises Refused."""
    done = asyncio.run_coroutine_threadsafe(question, node.loop)
    try:
        return done.result(within_s)
    except TimeoutError:
        done.cancel()
        raise Refused("busy", "the node has not answered in time; look again in a moment") from None


def answer_of(
    request: HttpRequest,
    question: Callable[[Node], Coroutine[Any, Any, _T]],
    without: StrPromise,
    within_s: float = _ANSWERS_S,
) -> tuple[_T | None, StrPromise | str]:
    """The answer of the node in this process, and else the reason why there is none; `without` a node."""
    node = node_of(request)
    if node is None:
        return None, without
    try:
        return ask(node, question(node), within_s), ""
    except Refused as refusal:
        return None, refusal.detail


class AppliedFirst:
    """Holds an answer back until the node here, if there is one, obeys what its request has changed."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        made: list[int] = []
        reset = _made.set(made)
        try:
            answer = self._get_response(request)
        finally:
            _made.reset(reset)
        node = node_of(request)
        if made and node is not None:
            return _wait(node, max(made)) or answer
        return answer


def _wait(node: Node, version: int) -> HttpResponseBase | None:
    """The answer when another broker has taken over, which does not have the change; else None."""
    try:
        ask(node, node.wait_policy(version), within_s=_APPLIES_S)
    except Refused as refusal:
        if refusal.code == "not-active":
            kind = "application/problem+json"
            return JsonResponse(body_of(refusal), status=status_of(refusal), content_type=kind)
        log.warning(
            "version %d of the configuration is saved, but was not applied within %g s", version, _APPLIES_S
        )
    return None


def _note(version: int, **_: Any) -> None:
    made = _made.get()
    if made is not None:
        made.append(version)


policy_changed.connect(_note)
