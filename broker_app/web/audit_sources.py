"""Sources of the audit log other than edits: operators' actions on the data plane, and console logins.

And what gets out of it again: entries and versions that are too old.
"""

from __future__ import annotations

import asyncio
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn

from django.conf import settings
from django.contrib.auth.signals import user_logged_in, user_login_failed
from django.core.cache import cache
from django.db import DatabaseError, connection
from django.http import HttpRequest
from django.utils import timezone

from broker_app.base.audit_actions import LOGGED_IN, LOGIN_FAILED, LOGINS_FAIL
from broker_app.net.operator_audit import OperatorAction, OperatorActions
from broker_app.web.actions import API, CONSOLE, Actor, audit, trim_history
from broker_app.web.actor import actor_of, trace_id
from broker_app.web.auth.backends import slowed

log = logging.getLogger(__name__)

#: failed logins a minute that have an entry each
MAX_FAILED = 60
_PRUNE_EVERY_S = 3600.0
#: versions of the configuration that are kept
_VERSIONS = 10_000


async def keep(actions: OperatorActions, interval_s: float = 1.0) -> NoReturn:
    """Write operators' actions to the audit log and delete old entries until cancelled; then write the rest.

    While the database is not writable, actions wait; beyond a limit they are lost and counted.
    """
    loop = asyncio.get_running_loop()
    thread = ThreadPoolExecutor(1, thread_name_prefix="audit")
    waiting: list[OperatorAction] = []
    writing: asyncio.Future[bool] | None = None
    prune_at = loop.time()
    try:
        while True:
            await asyncio.sleep(interval_s)
            waiting = waiting or actions.take()
            if waiting:
                writing = loop.run_in_executor(thread, write, waiting)
                waiting = [] if await asyncio.shield(writing) else waiting
                writing = None
            if loop.time() >= prune_at:
                prune_at = loop.time() + _PRUNE_EVERY_S
                await loop.run_in_executor(thread, prune)
    finally:
        # What is being written when this is cancelled is not written again.
        if writing is not None and await writing:
            waiting = []
        rest = [*waiting, *actions.take(last=True)]
        if rest:  # else the end would wait for the disk, and mirrors be sent a database that is as before
            await loop.run_in_executor(thread, write, rest)
        thread.submit(connection.close)
        thread.shutdown(wait=False)


def write(actions: list[OperatorAction]) -> bool:
    """Return True if the actions are in the audit log now. Blocks."""
    try:
        audit.record_all((_author(action), _entry(action)) for action in actions)
    except DatabaseError as error:
        log.warning("the audit log cannot be written: %s", error)
        return False
    return True


def prune() -> None:
    """Delete audit entries and versions that are too old. Blocks."""
    try:
        while audit.prune(timezone.now() - timedelta(days=settings.MOM.audit_days)):
            pass
        trim_history(_VERSIONS)
    except DatabaseError as error:
        log.warning("old entries of the audit log cannot be removed: %s", error)


def _author(action: OperatorAction) -> Actor:
    operator = action.operator
    return Actor(
        operator.user,
        operator.via,
        operator.address or "",
        operator.token or "",
        operator.reason,
        operator.trace_id,
    )


def _entry(action: OperatorAction) -> audit.Action:
    return audit.Action(
        action.action,
        action.kind,
        action.key,
        after=dict(action.facts) or None,
        time=datetime.fromtimestamp(action.time, UTC),
    )


# ---------------------------------------------------------------------- logins of the console


def watch_logins() -> None:
    """Record logins to the console from now on, also failed ones."""
    user_logged_in.connect(_logged_in, dispatch_uid="audit")
    user_login_failed.connect(_login_failed, dispatch_uid="audit")


def _logged_in(sender: Any, request: HttpRequest | None, user: Any, **_: Any) -> None:
    if request is not None:
        request.user = user  # Django does so where the middleware was before
        audit.record(actor_of(request), audit.Action.of(LOGGED_IN, user.get_username()))


def _login_failed(
    sender: Any, credentials: dict[str, object], request: HttpRequest | None = None, **_: Any
) -> None:
    """The first failed logins of a minute have an entry each, all further ones one together. Those that the
    login throttle refused have none."""
    if request is None or slowed(request) is not None:
        return
    minute = f"failed-logins/{int(time.time() // 60)}"
    cache.add(minute, 0, 120)
    count = cache.incr(minute)
    # The identity is still unknown: `actor_of` would authenticate again.
    via = API if request.headers.get("Authorization") else CONSOLE
    actor = Actor("", via, request.META.get("REMOTE_ADDR", ""), trace_id=trace_id(request))
    if count <= MAX_FAILED:
        name = str(credentials.get("username", ""))[:150].encode(errors="replace").decode()
        audit.record(actor, audit.Action.of(LOGIN_FAILED, name.replace("\0", "")))
    elif count == MAX_FAILED + 1:
        audit.record(actor, audit.Action.of(LOGINS_FAIL, "", a_minute=f"more than {MAX_FAILED}"))
