"""Notices of takeovers and of mirrors for the event log, and the list of brokers for clients."""

from __future__ import annotations

from broker_app.features.mirror.mirror import Mirror
from broker_app.members.takeovers import Takeover
from broker_app.net.rest.node.mirror_status import STARTED
from broker_app.node.features.cluster_clients import list_message
from broker_app.node.system_publisher import SystemPublisher
from broker_app.telemetry.event_log import MIRRORS, EventLog

#: code of the event of a mirror that was started while there was no main broker
WITHOUT_MAIN = "MIRROR_ACTIVE_WITHOUT_MAIN"
#: code of the event of a mirror with other settings than this broker
DIFFER = "MIRROR_SETTINGS_DIFFER"


class MirrorNotices:
    """Writes into `events` and publishes by `publisher`."""

    def __init__(self, mirror: Mirror, events: EventLog, publisher: SystemPublisher) -> None:
        self._mirror = mirror
        self._events = events
        self._publisher = publisher
        self._uris = mirror.failover_uris
        self._standbys: frozenset[str] = frozenset()
        self._differences: frozenset[str] = frozenset()

    def took_over(self, takeover: Takeover, *, without_main: bool) -> None:
        """This broker serves from now on."""
        name = self._mirror.name
        code = "" if takeover.cause == STARTED else takeover.cause.upper().replace("-", "_")
        facts = {field: value for field, value in takeover._asdict().items() if field != "cause"}
        self._events.note(
            MIRRORS, name, "took over", code=code, detail=takeover.sentence, cause=takeover.cause, **facts
        )
        if without_main:
            detail = "this is a mirror (role -1), and no main broker was there to follow: it serves as one"
            self._events.note(MIRRORS, name, "active without main", code=WITHOUT_MAIN, detail=detail)

    def each_second(self) -> None:
        """Report the mirrors that came and went, and publish the list of brokers if it has changed."""
        standbys = frozenset(one.id for one in self._mirror.standbys)
        for added in sorted(standbys - self._standbys):
            self._events.note(MIRRORS, self._mirror.name, "mirror joined", detail=f"{added} follows")
        for removed in sorted(self._standbys - standbys):
            detail = f"{removed} does not follow any more"
            self._events.note(MIRRORS, self._mirror.name, "mirror left", code="MIRROR_LEFT", detail=detail)
        self._standbys = standbys
        differences = self._mirror.membership.differences
        for detail in sorted(differences - self._differences):
            self._events.note(MIRRORS, self._mirror.name, "settings differ", code=DIFFER, detail=detail)
        self._differences = differences
        uris = self._mirror.failover_uris
        if uris != self._uris:
            self._uris = uris
            self._publisher.publish([list_message(list(uris))])
