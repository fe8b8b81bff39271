"""Medians, ratios and verdicts of measured runs, and their tables in Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measurement import Measurement
from benchmarks.workloads import MEASURES, Floor, MeasureName, Workload

SECTIONS = "<!-- sections: newest first -->"


@dataclass(frozen=True, slots=True)
class Spread:
    """The values of one measure in several runs."""

    median: float
    low: float
    high: float

    def text(self, digits: int) -> str:
        return f"{self.median:,.{digits}f} ({self.low:,.{digits}f}-{self.high:,.{digits}f})"


@dataclass(frozen=True, slots=True)
class Summary:
    """All runs of one workload on one server."""

    runs: int
    spreads: dict[MeasureName, Spread]
    faults: list[str]


Summaries = dict[tuple[str, str], Summary]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result for one floor; `reached` is None when there was nothing to compare."""

    workload: Workload
    floor: Floor
    ours: Spread | None
    peer: str
    theirs: Spread | None
    ratio: float | None
    reached: bool | None


def summarise(measurements: Iterable[Measurement]) -> Summaries:
    """Medians by (workload, server). A run with faults keeps its figures, and its faults are kept with it."""
    grouped: dict[tuple[str, str], list[Measurement]] = {}
    for measurement in measurements:
        grouped.setdefault((measurement.workload, measurement.server), []).append(measurement)
    return {key: _summary(runs) for key, runs in grouped.items()}


def _summary(runs: Sequence[Measurement]) -> Summary:
    spreads = {}
    for name in MEASURES:
        values = [run.figures[name] for run in runs if name in run.figures]
        if values:
            spreads[name] = Spread(statistics.median(values), min(values), max(values))
    return Summary(len(runs), spreads, [f"run {run.round}: {fault}" for run in runs for fault in run.faults])


def better_peer(workload: Workload, summaries: Summaries, peers: Sequence[str]) -> str:
    """The peer that is better in the measure of the workload's first floor; empty without peers."""
    measure = workload.floors[0].measure
    figures = {}
    for peer in peers:
        summary = summaries.get((workload.name, peer))
        if summary and measure in summary.spreads:
            figures[peer] = summary.spreads[measure].median
    if not figures:
        return ""
    choose = max if MEASURES[measure].more_is_better else min
    return choose(figures, key=lambda peer: figures[peer])


def verdicts(
    chosen: Iterable[Workload], summaries: Summaries, ours: str, peers: Sequence[str]
) -> list[Verdict]:
    """One verdict for each floor. A fault of ours makes every floor of that workload a miss."""
    found = []
    for workload in chosen:
        better = better_peer(workload, summaries, peers)
        for floor in workload.floors:
            peer = floor.against or better
            mine = summaries.get((workload.name, ours))
            other = summaries.get((workload.name, peer))
            found.append(_verdict(workload, floor, mine, peer, other))
    return found


def _verdict(
    workload: Workload, floor: Floor, mine: Summary | None, peer: str, other: Summary | None
) -> Verdict:
    ours = mine.spreads.get(floor.measure) if mine else None
    theirs = other.spreads.get(floor.measure) if other else None
    ratio = ours.median / theirs.median if ours and theirs and theirs.median else None
    judged = ours.median if floor.absolute and ours else None if floor.absolute else ratio
    reached = None if judged is None else floor.reached(judged)
    if mine and mine.faults:
        reached = False
    return Verdict(workload, floor, ours, peer, theirs, ratio, reached)


def floors_table(found: Sequence[Verdict]) -> str:
    """The table of ratios."""
    rows = ["| workload | measure | floor | MOM (min-max) | better peer (min-max) | ratio | |"]
    rows.append("|---|---|---|---|---|---|---|")
    for verdict in found:
        measure = MEASURES[verdict.floor.measure]
        ours = verdict.ours.text(measure.digits) if verdict.ours else "—"
        theirs = f"{verdict.peer} {verdict.theirs.text(measure.digits)}" if verdict.theirs else "—"
        ratio = f"{verdict.ratio:.2f}x" if verdict.ratio is not None else "—"
        word = {True: "pass", False: "**miss**", None: "—"}[verdict.reached]
        rows.append(
            f"| {verdict.workload.title} | {measure.title} | {verdict.floor.words()} "
            f"| {ours} | {theirs} | {ratio} | {word} |"
        )
    return "\n".join(rows)


def figures_table(chosen: Iterable[Workload], summaries: Summaries, servers: Sequence[str]) -> str:
    """Every median of every server."""
    titles = [measure.title for measure in MEASURES.values()]
    rows = [f"| workload | server | runs | {' | '.join(titles)} | checked |"]
    rows.append("|---" * (len(titles) + 4) + "|")
    for workload in chosen:
        for server in servers:
            if not (summary := summaries.get((workload.name, server))):
                continue
            cells = []
            for name, measure in MEASURES.items():
                spread = summary.spreads.get(name)
                cells.append(f"{spread.median:,.{measure.digits}f}" if spread else "—")
            clean = "; ".join(summary.faults).replace("|", "/").replace("\n", " ") or "clean"
            rows.append(f"| {workload.title} | {server} | {summary.runs} | {' | '.join(cells)} | {clean} |")
    return "\n".join(rows)


def add_section(path: Path, section: str) -> None:
    """Put `section` above the older ones in `path`, a file that has the line `SECTIONS`."""
    text = path.read_text()
    before, marker, after = text.partition(SECTIONS)
    if not marker:
        raise ValueError(f"{path} has no line {SECTIONS}")
    path.write_text(f"{before}{SECTIONS}\n\n{section.strip()}\n\n{after.strip()}".rstrip() + "\n")
