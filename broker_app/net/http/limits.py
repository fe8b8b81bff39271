"""Limits of REST clients, which `/api/v1/limits` shows."""

from __future__ import annotations

from dataclasses import dataclass

from broker_app.config import MAX_HEADER_BYTES, MAX_HEADERS, Config

KIB, MIB = 1024, 1024 * 1024
MAX_WAITING = 5_000


@dataclass(slots=True)
class RestLimits:
    """Sizes are bytes, times are seconds. All endpoints share one, and read it each time: it changes in its
    place when settings of the running node do."""

    #: body of a message that is published singly
    max_body_bytes: int = 64 * MIB
    #: body of a batch, and of one line of a streamed batch
    max_batch_bytes: int = 8 * MIB
    max_batch_items: int = 1_000
    #: lines of a streamed batch (`application/x-ndjson`)
    max_stream_items: int = 100_000
    #: rows of one part of a stage, and the body that brings them
    max_stage_rows: int = 10_000
    max_stage_bytes: int = 16 * MIB
    #: any other body
    max_request_bytes: int = MIB
    #: application headers of a message, all together
    max_header_bytes: int = MAX_HEADER_BYTES
    max_headers: int = MAX_HEADERS
    #: messages of one receive, and receipts settled at once
    max_receive: int = 1_000
    max_wait_s: float = 60.0
    #: a message waits so long for room in a full queue before it is refused
    max_queue_wait_s: float = 5.0
    default_lease_s: float = 30.0
    max_lease_s: float = 43_200.0
    #: unsettled messages of one event stream
    max_event_credit: int = 100
    max_page: int = 500
    #: receives and event streams that wait at the same time, node-wide
    max_waiting: int = MAX_WAITING
    #: bytes of all bodies that are being received, node-wide
    max_uploading_bytes: int = 256 * MIB
    #: a body has this long to arrive, and a second more for every `upload_rate` bytes
    upload_timeout_s: float = 30.0
    upload_rate: int = 64 * KIB
    #: longest part of a body that browsing shows, and all of them together
    max_preview_bytes: int = 64 * KIB
    max_page_bytes: int = 8 * MIB

    def follow(self, config: Config) -> None:
        """Take over the settings that can change while the node runs."""
        self.max_queue_wait_s = min(5.0, config.full_wait)
        self.default_lease_s = config.lease
        self.max_waiting = min(MAX_WAITING, config.max_subscriptions)

    @classmethod
    def of(cls, config: Config) -> RestLimits:
        """The limits that follow from the settings of a node."""
        return cls(
            max_body_bytes=config.max_body_bytes,
            max_queue_wait_s=min(5.0, config.full_wait),
            default_lease_s=config.lease,
            # All of them are subscriptions of one session.
            max_waiting=min(MAX_WAITING, config.max_subscriptions),
        )
