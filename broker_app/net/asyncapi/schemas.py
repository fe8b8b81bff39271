"""Schemas that several parts use."""

from __future__ import annotations

from typing import Final

from broker_app.features.callbacks.arrival_feed import MOST
from broker_app.net.rest.openapi.schemas import BOOLEAN, COUNT, TEXT, Json, array_of, object_of

#: what arrived in a queue, in event streams and webhooks
NOTIFICATION: Final = "Notification"

SCHEMAS: Final[Json] = {
    NOTIFICATION: object_of(
        {
            "queue": TEXT,
            "seq": {**COUNT, "description": "the position up to which the broker has reported"},
            "seqs": {**array_of(COUNT, MOST), "description": "positions of the messages that began to wait"},
            "ids": {**array_of(TEXT, MOST), "description": "their ids"},
            "pending": {**COUNT, "description": "number of all messages that wait in the queue"},
            "more": {**BOOLEAN, "description": "true: others are not listed"},
            "journal": {**TEXT, "description": "the tag of the journal that has these positions"},
            "unknown_position": {
                **BOOLEAN,
                "description": "true: the journal never gave the position that was named; all is reported",
            },
        },
        required=("queue", "seq", "seqs", "ids", "pending", "more", "journal"),
    ),
}
