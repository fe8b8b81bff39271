"""The report about message channels: for REST, the command `mom`, metrics and the console."""

from __future__ import annotations

import msgspec


class SiteReport(msgspec.Struct, frozen=True, kw_only=True):
    """One site, as this one sees it. `handlers` is None where it is not known; `functions` are the names of
    those handlers of this site that are functions in the broker. Counts are since this broker started: `sent`
    are messages and requests to there, `received` those from there, `dropped` what was handed to no
    application, by reason; `failed` are requests to there that failed, by status. `in_flight` are those that
    wait for an answer, `round_trip_ms` is the time of a request, the average of the latest."""

    name: str
    is_here: bool
    is_master: bool
    linked: bool
    handlers: int | None = None
    functions: list[str] = []
    in_flight: int = 0
    sent: int = 0
    received: int = 0
    dropped: dict[str, int] = {}
    failed: dict[str, int] = {}
    round_trip_ms: float | None = None


class ChannelReport(msgspec.Struct, frozen=True, kw_only=True):
    """All sites. `master` is empty while there is none."""

    site: str
    master: str
    sites: list[SiteReport]
