"""Findings of `mom doctor` and `mom pipeline doctor`: the state of each thing that was checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from broker_app.cli.base.failures import FAILED, Failure
from broker_app.cli.base.output import Output

OK, WARNING, ERROR = "ok", "warning", "error"

_COLUMNS = ("check", "state", "result", "fix")


class Finding(NamedTuple):
    """The result of one check; `fix` is empty when it passed."""

    check: str
    state: str
    result: str
    fix: str = ""


def report(output: Output, findings: Sequence[Finding]) -> None:
    """Print all findings. Raises Failure if there is an error among them."""
    output.rows(_COLUMNS, [finding._asdict() for finding in findings])
    failed = [finding.check for finding in findings if finding.state == ERROR]
    if failed:
        raise Failure(FAILED, f"failed: {', '.join(failed)}", fix="see the column fix")
