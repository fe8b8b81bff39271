"""The reasons why a message of a store-and-forward queue is still here, from its bridge."""

from __future__ import annotations

from broker_app.core.inspection.why import Reason
from broker_app.features.bridge.pipe_reports import (
    Forwarding,
    PipeReport,
)
from mom_client import storeandforward


def with_bridge(reasons: list[Reason], address: str, forwarding: Forwarding) -> list[Reason]:
    """The reasons for a message in the queue of `address`; those of its bridge instead of its consumers."""
    forwarded = storeandforward.parse(address.removeprefix("/queue/"))
    if forwarded is None or not reasons:
        return reasons
    report = forwarding.report_of(forwarded.broker)
    others = [reason for reason in reasons if reason.code != "no-consumer"]
    return [_of_bridge(forwarded, report), *others]


def _of_bridge(forwarded: storeandforward.Forwarded, report: PipeReport | None) -> Reason:
    name, facts = forwarded.broker, {"bridge": forwarded.broker, "queue": forwarded.queue}
    if report is None:
        return Reason("bridge", f"no connection is configured for {name}, so nothing forwards it", facts)
    flow = next((flow for flow in report["flows"] if flow["queue"] == forwarded.queue), None)
    state = report["desired"] if report["desired"] != "running" else (flow or report)["state"]
    facts["state"] = state = "paused" if flow and flow["paused"] else state
    sentence = f"bridge {name} forwards it to {forwarded.queue}, and is {state}"
    error = (flow and flow["error"]) or report["error"]
    if error:
        facts["error"] = error["code"]
        sentence += f": {error['code']}: {error['detail']}"
    return Reason("bridge", sentence, facts)
