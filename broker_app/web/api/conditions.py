"""Conditional requests: the version that a write replaces, and whether a client has the current one."""

from __future__ import annotations

from rest_framework.request import Request

from broker_app.base.refused import Refused
from broker_app.web import actions


def etag(version: int, living: str = "") -> str:
    """The strong tag of a version; `living` distinguishes what changes without a new version."""
    return f'"{version}.{living}"' if living else f'"{version}"'


def expected(request: Request, now: int, *, built_in: bool = False) -> int:
    """The version that a write replaces: 0 for none, else `now`. Raises Refused (428), Stale (412).

    PUT without a condition creates a resource that does not exist. With `built_in`, one that is not
    configured exists nevertheless, with version 0.
    """
    if "If-None-Match" in request.headers:
        if _tags(request, "If-None-Match") != ["*"]:
            raise Refused("precondition-failed", "If-None-Match of a write must be *", current=etag(now))
        return 0
    if "If-Match" not in request.headers:
        if now == 0 and request.method == "PUT":
            return 0
        detail = f"send If-Match with the version that you read; it is {etag(now)}"
        raise Refused("precondition-required", detail, current=etag(now))
    tags = _tags(request, "If-Match")
    exists = now > 0 or built_in
    if not exists or (tags != ["*"] and now not in [_version(tag) for tag in tags]):
        raise actions.Stale(now)
    return now


def require(request: Request, *tags: str) -> None:
    """Refuses a write unless its If-Match names one of the tags of now (412), or when there is none (428)."""
    if "If-Match" not in request.headers:
        detail = f"send If-Match with the version that you read; it is {tags[0]}"
        raise Refused("precondition-required", detail, current=tags[0])
    given = _tags(request, "If-Match")
    if given != ["*"] and not set(given) & set(tags):
        detail = f"something was changed since; the version is {tags[0]} now"
        raise Refused("precondition-failed", detail, current=tags[0])


def is_known(request: Request, tag: str) -> bool:
    """True if If-None-Match names `tag`, so that a GET is answered by 304."""
    tags = _tags(request, "If-None-Match")
    return tags == ["*"] or tag in [known.removeprefix("W/") for known in tags]


def _tags(request: Request, header: str) -> list[str]:
    return [tag.strip() for tag in request.headers.get(header, "").split(",")]


def _version(tag: str) -> int | None:
    """The version in a strong tag, without its status part; None for a foreign tag."""
    inner = tag[1:-1].partition(".")[0] if tag[:1] == tag[-1:] == '"' else ""
    return int(inner) if inner.isascii() and inner.isdigit() and len(inner) < 20 else None
