"""Mirrors over HTTP: the status for administrators, their orders, and the list of brokers for clients."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec

from broker_app.base.audit_actions import (
    MIRRORS_PAUSED,
    MIRRORS_RESUMED,
    MIRRORS_SWITCHED_OVER,
    MIRRORS_TAKEN_OVER,
)
from broker_app.base.refused import Refused
from broker_app.net.http.refusals import invalid
from broker_app.net.http.replies import Reply, json_reply
from broker_app.net.http.requests import Request
from broker_app.net.http.routing import Handlers
from broker_app.net.rest.node.mirror_status import FailoverList, Mirrors

MAX_REASON = 500
#: seconds for which takeovers may be paused
MIN_PAUSE_S, MAX_PAUSE_S = 1, 86_400
_ANY_ORIGIN = ((b"access-control-allow-origin", b"*"),)


class DrillCheck(Protocol):
    """One thing that a takeover needs."""

    @property
    def name(self) -> str: ...
    @property
    def ok(self) -> bool: ...
    @property
    def detail(self) -> str: ...


class MirrorOperations(Protocol):
    """The operations on the brokers that share a journal. All raise Refused."""

    name: str

    def status(self) -> Mirrors: ...
    def failover_list(self) -> FailoverList: ...
    async def refresh(self) -> None: ...
    def choose_successor(self, member_id: str) -> Any: ...
    async def switch_over(self, successor: Any) -> None: ...
    def take_over(self, epoch: int, reason: str) -> None: ...
    async def pause(self, for_s: float, reason: str, user: str) -> None: ...
    async def resume(self) -> None: ...
    async def drill(self) -> Sequence[DrillCheck]: ...


class Switchover(msgspec.Struct, forbid_unknown_fields=True):
    """`to` is the id of a standby; without it, the one that is nearest to the end of the journal."""

    to: str = ""
    reason: str = ""
    dry_run: bool = False


class ForcedTakeover(msgspec.Struct, forbid_unknown_fields=True):
    """`expect_epoch` is the epoch of the holder as the operator has seen it."""

    expect_epoch: int
    reason: str
    accept_loss: bool = False
    dry_run: bool = False


class PauseOrder(msgspec.Struct, forbid_unknown_fields=True):
    """No standby takes over by itself for `for_s` seconds."""

    for_s: float
    reason: str = ""


class MirrorEndpoints:
    """Endpoints `mirrors…` and `failover-list`; `mirror` is None where the journal is not shared.
    `cluster_uris` returns the addresses that a broker of a cluster sends its clients, none elsewhere."""

    def __init__(
        self,
        mirror: MirrorOperations | None,
        own_list: FailoverList,
        cluster_uris: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        self._mirror = mirror
        self._own_list = own_list
        self._cluster_uris = cluster_uris

    def handlers(self) -> Handlers:
        """The endpoints by operation."""
        return {
            "get_failover_list": self.failover_list,
            "list_mirrors": self.all,
            "get_mirrors": self.one,
            "switch_over": self.switch_over,
            "take_over": self.take_over,
            "pause_takeovers": self.pause,
            "resume_takeovers": self.resume,
            "drill_takeover": self.drill,
        }

    async def failover_list(self, request: Request) -> Reply:
        """GET failover-list: the brokers of this name, the active one first; in a cluster those that clients
        may go to. Needs no login."""
        request.query()
        found = self._mirror.failover_list() if self._mirror is not None else self._own_list
        uris = self._cluster_uris()
        if uris:
            found = {**found, "uris": list(uris)}
        return json_reply(found, headers=_ANY_ORIGIN)

    async def all(self, request: Request) -> Reply:
        """GET mirrors: the status of this broker's mirrors; empty where the journal is not shared"""
        request.query()
        request.require_administrator("mirrors are")
        if self._mirror is None:
            return json_reply({"items": []})
        await self._mirror.refresh()
        return json_reply({"items": [self._mirror.status()]})

    async def one(self, request: Request) -> Reply:
        """GET mirrors/{name}"""
        request.query()
        request.require_administrator("mirrors are")
        mirror = self._find(request)
        await mirror.refresh()
        return json_reply(mirror.status())

    async def switch_over(self, request: Request) -> Reply:
        """POST mirrors/{name}/switchover: another broker takes over, without loss"""
        request.query()
        request.require_administrator("mirrors are")
        body = await request.json(Switchover, required=False)
        mirror = self._find(request)
        _check_reason(body.reason)
        successor = mirror.choose_successor(body.to)
        preview = {"to": successor.id, "would_be_lost": mirror.status()["would_be_lost"]}
        if body.dry_run:
            return json_reply({**preview, "dry_run": True})
        request.audit(MIRRORS_SWITCHED_OVER, mirror.name, reason=body.reason, to=successor.id)
        await mirror.switch_over(successor)
        return json_reply({**preview, "dry_run": False}, 202)

    async def take_over(self, request: Request) -> Reply:
        """POST mirrors/{name}/takeover: at a standby, by force; what only its holder has in memory is lost"""
        request.query()
        request.require_administrator("mirrors are")
        body = await request.json(ForcedTakeover)
        mirror = self._find(request)
        _check_reason(body.reason)
        lost = mirror.status()["would_be_lost"]
        if body.dry_run:
            return json_reply({"would_be_lost": lost, "dry_run": True})
        if not body.reason:
            raise invalid("/reason", "must be given: it is kept in the timeline")
        if not body.accept_loss:
            raise Refused(
                "conflict",
                "a forced takeover loses the non-persistent messages of the active broker "
                f"(about {_counted(lost['non_persistent'])}); send accept_loss: true, or switch over instead",
                would_be_lost=lost,
            )
        mirror.take_over(body.expect_epoch, body.reason)
        request.audit(MIRRORS_TAKEN_OVER, mirror.name, reason=body.reason)
        return json_reply({"would_be_lost": lost, "dry_run": False}, 202)

    async def pause(self, request: Request) -> Reply:
        """POST mirrors/{name}/pause: no standby takes over by itself until the pause ends"""
        request.query()
        request.require_administrator("mirrors are")
        body = await request.json(PauseOrder)
        mirror = self._find(request)
        _check_reason(body.reason)
        if not MIN_PAUSE_S <= body.for_s <= MAX_PAUSE_S:
            raise invalid("/for_s", f"must be from {MIN_PAUSE_S} to {MAX_PAUSE_S} seconds")
        user = request.client.identity.user
        await mirror.pause(body.for_s, body.reason, user)
        request.audit(MIRRORS_PAUSED, mirror.name, reason=body.reason, for_s=body.for_s)
        return json_reply({"pause": mirror.status()["pause"]})

    async def resume(self, request: Request) -> Reply:
        """POST mirrors/{name}/resume: standbys take over again"""
        request.query()
        request.require_administrator("mirrors are")
        mirror = self._find(request)
        await mirror.resume()
        request.audit(MIRRORS_RESUMED, mirror.name)
        return json_reply({"pause": mirror.status()["pause"]})

    async def drill(self, request: Request) -> Reply:
        """POST mirrors/{name}/drill: a standby tries what a takeover needs, and takes nothing"""
        request.query()
        request.require_administrator("mirrors are")
        began = time.monotonic()
        checks = await self._find(request).drill()
        return json_reply(
            {
                "could_serve": all(check.ok for check in checks),
                "took_s": round(time.monotonic() - began, 3),
                "checks": [{"name": one.name, "ok": one.ok, "detail": one.detail} for one in checks],
            }
        )

    def _find(self, request: Request) -> MirrorOperations:
        if self._mirror is None or request.name != self._mirror.name:
            raise Refused(
                "not-found",
                f"there are no mirrors of {request.name[:100]!r} here; brokers have mirrors that share "
                "their journal (the setting journal)",
            )
        return self._mirror


def _counted(number: int | None) -> str:
    return "an unknown number" if number is None else str(number)


def _check_reason(reason: str) -> None:
    if len(reason) > MAX_REASON or not (reason.isprintable() or not reason):
        raise invalid("/reason", f"must be a line of at most {MAX_REASON} printable characters")
