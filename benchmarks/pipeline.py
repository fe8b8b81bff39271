"""The data pipeline: what its source and jobs do in a second, next to DuckDB and PyArrow with the same data.

`python -m benchmarks.pipeline` starts brokers, has mombench fill their journals, and reads those with Spark
on two cores. Each figure is compared with what is promised. It takes a quarter of an hour and 15 GB of disk;
`--only` measures some parts, `--scale 0.1` less data.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from datetime import UTC, datetime

from benchmarks import machine, pipeline_jobs, pipeline_processes, pipeline_share
from benchmarks.bench import add_output_options, finish, progress, run_or_explain, workplace
from benchmarks.generator import Generator
from benchmarks.pipeline_bench import Bench, Found
from benchmarks.pipeline_promises import PARTS, PROMISES, Seen, missed, table
from benchmarks.servers import Mom

_MEASURES: dict[str, Callable[[Bench], Found]] = {
    "source": pipeline_jobs.source,
    "archive": pipeline_jobs.archiving,
    "statistics": pipeline_jobs.counting,
    "reconcile": pipeline_jobs.reconciling,
    "replay": pipeline_jobs.replaying,
    "start": pipeline_processes.starting,
    "memory": pipeline_processes.memory,
    "freshness": pipeline_processes.freshness,
    "share": pipeline_share.shares,
}
assert tuple(_MEASURES) == PARTS


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.pipeline", description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="rounds; the medians are of these (3)")
    parser.add_argument("--only", default=",".join(PARTS), help=f"some of {','.join(PARTS)}")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the data (1)")
    add_output_options(parser)
    arguments = parser.parse_args(argv)
    chosen = arguments.only.split(",")
    if unknown := set(chosen) - set(PARTS):
        parser.error(f"there is no part {', '.join(sorted(unknown))}")
    began = time.monotonic()
    with workplace(arguments.work) as directory, ExitStack() as running:
        generator = Generator.build(directory)
        place = machine.describe(directory)
        bench = Bench(directory, generator, arguments.scale, arguments.runs, running)
        seen: dict[str, Seen] = {}
        for part in (part for part in PARTS if part in chosen):
            for name, found in _MEASURES[part](bench):
                progress(f"{PROMISES[name].title}: {found.value:,.{PROMISES[name].digits}f} {found.fault}")
                seen[name] = found
    minutes = (time.monotonic() - began) / 60
    lines = [
        f"## The data pipeline, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "",
        f"- Machine: {place.line()}",
        f"- {Mom.version()}; medians of {arguments.runs} rounds, Spark on two cores.",
        f"- {arguments.scale:g} of the data, in {minutes:.0f} minutes.",
        "",
        table(seen),
    ]
    plain: dict[str, object] = {"seen": {name: asdict(found) for name, found in seen.items()}}
    finish("\n".join(lines), arguments.json, plain, arguments.append)
    return int(bool(list(missed(seen))))


if __name__ == "__main__":
    sys.exit(run_or_explain(main))
