"""The reports about bridges, for REST, pages and system topics. Times are ms since 1970."""

from __future__ import annotations

from broker_app.base.states import FLOW
from broker_app.core.remote.offset import Offset
from broker_app.features.bridge import pipe as pipes
from broker_app.features.bridge.bridge_errors import BridgeError
from broker_app.features.bridge.flow import Flow, Phase
from broker_app.features.bridge.pipe import Pipe
from broker_app.features.bridge.pipe_reports import (
    ErrorReport,
    EventReport,
    FlowReport,
    MarkReport,
    Orphan,
    PipeReport,
)
from broker_app.features.bridge.timeline import TimelineEvent
from mom_client.storeandforward import Forwarded

#: the states of a flow; those of a pipe are in `pipe`
SUSPENDED, STARTING, RUNNING, RETRYING, STALLED, FAILED = FLOW


def of_pipe(pipe: Pipe) -> PipeReport:
    """A bridge with its flows by queue."""
    remote = pipe.remote
    connected = pipe.state == pipes.RUNNING
    return {
        "name": remote.name,
        "address": remote.address,
        "desired": remote.desired,
        "drained": pipe.drained,
        "state": pipe.state,
        "error": _of_error(pipe.error, pipe.error_at),
        "attempts": pipe.attempts.failed,
        "connected_ms": round(pipe.connected_at * 1000) if connected else None,
        "foreign": pipe.foreign,
        "server": pipe.server,
        "flows": [of_flow(flow, pipe) for flow in sorted(pipe.flows.values(), key=lambda flow: flow.queue)],
    }


def of_flow(flow: Flow, pipe: Pipe) -> FlowReport:
    """A flow of a bridge."""
    counters = flow.counters
    return {
        "queue": flow.queue,
        "source": flow.source,
        "state": state_of(flow, pipe),
        "paused": flow.paused,
        "error": _of_error(flow.status.error, flow.status.error_at),
        "progress_ms": round(flow.status.progress_at * 1000) or None,
        "depth": flow.consumer.depth,
        "in_flight": flow.in_flight,
        "sent": counters.sent,
        "accepted": counters.accepted,
        "refused": counters.refused,
        "unanswered": counters.unanswered,
        "duplicate": counters.duplicate,
        "gap": counters.gap,
        "dead_lettered": counters.dead_lettered,
        "bytes": counters.bytes,
    }


def state_of(flow: Flow, pipe: Pipe) -> str:
    if flow.phase is Phase.SUSPENDED:
        return SUSPENDED
    if flow.status.stalled:
        return STALLED
    if flow.phase is Phase.RETRYING or flow.status.error is not None:
        return RETRYING
    if flow.phase is Phase.WAITING:
        return {pipes.FAILED: FAILED, pipes.RETRYING: RETRYING}.get(pipe.state, STARTING)
    return STARTING if flow.phase in (Phase.STARTING, Phase.SUBSCRIBING) else RUNNING


def of_event(event: TimelineEvent) -> EventReport:
    """Something that happened to a bridge."""
    return {
        "time_ms": event.time_ms,
        "first_ms": event.first_ms,
        "event": event.event.name,
        "queue": event.queue,
        "code": event.code,
        "detail": event.detail,
        "times": event.times,
    }


def of_orphan(forwarded: Forwarded, depth: int) -> Orphan:
    """A queue that no bridge empties."""
    return {
        "bridge": forwarded.broker,
        "queue": forwarded.queue,
        "source": forwarded.address,
        "depth": depth,
        "error": {"code": "NO_BRIDGE", "detail": f"no connection is configured for {forwarded.broker}"},
    }


def of_mark(mark: Offset) -> MarkReport:
    """The progress of a remote queue that is forwarded to this broker."""
    return {
        "sender": mark.sender,
        "source": mark.source,
        "owner": mark.owner,
        "accepted": mark.position,
        "count": mark.count,
        "time_ms": mark.time_ms,
    }


def _of_error(error: BridgeError | None, at_s: float) -> ErrorReport | None:
    if error is None:
        return None
    return {"code": error.code, "detail": error.detail, "at_ms": round(at_s * 1000)}
