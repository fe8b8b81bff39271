"""The event log on its system topic: one message for each event that is declared."""

from __future__ import annotations

from typing import Final

from broker_app.base.events import DECLARED, OF_CAUSE, Event
from broker_app.base.system_topics import EVENT, type_of
from broker_app.net.asyncapi.part import (
    CLOUDEVENTS,
    SEND,
    DescriptionPart,
    channel,
    cloud_event,
    message,
    operation,
)
from broker_app.net.rest.openapi.schemas import TEXT, TIME, Json, object_of

_CHANNEL: Final = "eventLog"


def part(*servers: str) -> DescriptionPart:
    """The description of `$mom.event`."""
    messages = {f"event.{_name(event)}": _message(event) for event in DECLARED}
    about = "The event log: bridges, files, alerts, mirrors, cluster, callbacks, reflexes, store and broker"
    events = operation(SEND, "Publish an entry of the event log", _CHANNEL, map(_name, DECLARED))
    return DescriptionPart(
        {_CHANNEL: channel(about, f"/topic/{EVENT}", servers, messages)},
        {"event.publish": events},
        messages,
        {},
    )


def _name(event: Event) -> str:
    return f"{event.kind}-{event.name.replace(' ', '-')}"


def _message(event: Event) -> Json:
    about = event.label if event.sentence in ("", "{detail}") else f"{event.label}: {event.sentence}"
    return message(_name(event), about, _payload(event), content_type=CLOUDEVENTS)


def _payload(event: Event) -> Json:
    """The CloudEvent, whose data are as in `GET /events`."""
    data = object_of(
        {
            "id": TEXT,
            "at": TIME,
            "kind": {"const": event.kind},
            "name": TEXT,
            "event": {"const": event.name},
            "code": TEXT if event.code == OF_CAUSE else {"const": event.code},
            "detail": TEXT,
            "facts": object_of({name: {} for name in event.fields}, required=()),
        }
    )
    return cloud_event(type_of(EVENT), data)
