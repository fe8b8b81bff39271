"""Notices of takeovers and of mirrors for the event log, and the list of brokers for clients."""

from __future__ import annotations

from broker_app.base import events
from broker_app.features.mirror.mirror import Mirror
from broker_app.members.takeovers import Takeover
from broker_app.net.rest.node.mirror_status import STARTED
from broker_app.node.features.cluster_clients import list_message
from broker_app.node.system_publisher import SystemPublisher
from broker_app.telemetry.event_log import EventLog


class MirrorNotices:
    """Writes into `event_log` and publishes by `publisher`."""

    def __init__(self, mirror: Mirror, event_log: EventLog, publisher: SystemPublisher) -> None:
        self._mirror = mirror
        self._events = event_log
        self._publisher = publisher
        self._uris = mirror.failover_uris
        self._standbys: frozenset[str] = frozenset()
        self._differences: frozenset[str] = frozenset()

    def took_over(self, takeover: Takeover, *, without_main: bool) -> None:
        """This broker serves from now on."""
        name = self._mirror.name
        code = "" if takeover.cause == STARTED else takeover.cause.upper().replace("-", "_")
        facts = {field: value for field, value in takeover._asdict().items() if field != "cause"}
        self._events.report(
            events.TOOK_OVER, name, code=code, detail=takeover.sentence, cause=takeover.cause, **facts
        )
        if without_main:
            self._events.report(events.WITHOUT_MAIN, name)

    def each_second(self) -> None:
        """Report the mirrors that came and went, and publish the list of brokers if it has changed."""
        standbys = frozenset(one.id for one in self._mirror.standbys)
        for added in sorted(standbys - self._standbys):
            self._events.report(events.MIRROR_JOINED, self._mirror.name, mirror=added)
        for removed in sorted(self._standbys - standbys):
            self._events.report(events.MIRROR_LEFT, self._mirror.name, mirror=removed)
        self._standbys = standbys
        differences = self._mirror.membership.differences
        for detail in sorted(differences - self._differences):
            self._events.report(events.SETTINGS_DIFFER, self._mirror.name, detail=detail)
        self._differences = differences
        uris = self._mirror.failover_uris
        if uris != self._uris:
            self._uris = uris
            self._publisher.publish([list_message(list(uris))])
