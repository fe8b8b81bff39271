"""The lineage of a run: the positions that it has read and the files that it has written, as an event of
OpenLineage (https://openlineage.io/spec/2-0-2/OpenLineage.json), for catalogues of data.

It is a file next to the checkpoint, written when the run begins and again when it ends: one that was killed
has the event of its start."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, Final

from mom_pipeline.job_folder import JobFolder

START, COMPLETE, ABORT, FAIL = "START", "COMPLETE", "ABORT", "FAIL"
FOLDER: Final = "lineage"
#: newest runs whose lineage is kept
KEPT: Final = 100
_SCHEMA: Final = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs"
_PRODUCER: Final = "mom-broker"
_STREAMS: Final = ("archive",)
#: a part of an event, as OpenLineage defines it
_Document = Mapping[str, Any]
_Places = Mapping[str, Mapping[str, int]]


class Lineage:
    """The events of one run, whose id is a UUID."""

    def __init__(self, folder: JobFolder, run_id: str) -> None:
        self._folder = folder
        self._run_id = run_id
        self._began = datetime.now(UTC)
        self._inputs: dict[tuple[str, str], _Document] = {}
        self._outputs: dict[tuple[str, str], _Document] = {}

    def read(self, url: str, start: _Places, end: _Places) -> None:
        """The run has read the journals at an address from `start` to before `end`, places by broker."""
        for broker, place in end.items():
            first = start.get(broker, place)
            facet = {"start": dict(first), "end": dict(place)}
            before = self._inputs.get((url, broker))
            if before is not None:
                former = before["inputFacets"]["mom_positions"]
                facet["start"] = min(former["start"], facet["start"], key=lambda at: at["pos"])
            self._inputs[url, broker] = _dataset(url, broker, "inputFacets", mom_positions=facet)

    def read_files(self, path: str, **facts: Any) -> None:
        """The run has read files."""
        self._inputs["file", path] = _dataset("file", path, "inputFacets", mom_files=facts)

    def wrote(self, path: str, rows: int, **facts: Any) -> None:
        """The run has written rows into files, with facts such as the manifests of their batches."""
        found = {"outputStatistics": {"rowCount": rows}, **({"mom_files": facts} if facts else {})}
        self._outputs["file", path] = _dataset("file", path, "outputFacets", **found)

    def sent(self, url: str, destination: str, rows: int) -> None:
        """The run has sent messages to a broker."""
        statistics = {"rowCount": rows}
        self._outputs[url, destination] = _dataset(
            url, destination, "outputFacets", outputStatistics=statistics
        )

    def write(self, kind: str, error: str = "") -> None:
        """Write the file with an event of this type."""
        name = f"{self._began:%Y%m%dT%H%M%S.%fZ}-{self._run_id}.json"
        folder = self._folder.path / FOLDER
        folder.mkdir(exist_ok=True)
        self._folder.write(f"{FOLDER}/{name}", self._event(kind, error))
        for old in sorted(folder.glob("*.json"))[:-KEPT]:
            old.unlink(missing_ok=True)

    def _event(self, kind: str, error: str) -> _Document:
        job = self._folder.job
        facets = {"errorMessage": {"message": error, "programmingLanguage": "Python"}} if error else {}
        processing = "STREAMING" if job.job in _STREAMS else "BATCH"
        about = {
            "jobType": {"processingType": processing, "integration": "SPARK", "jobType": job.job.upper()}
        }
        return {
            "eventType": kind,
            "eventTime": datetime.now(UTC).isoformat(),
            "run": {"runId": self._run_id, "facets": _facets(facets, "RunFacet")},
            "job": {"namespace": "mom", "name": job.name, "facets": _facets(about, "JobFacet")},
            "inputs": list(self._inputs.values()),
            "outputs": list(self._outputs.values()),
            "producer": f"urn:{_PRODUCER}:{version(_PRODUCER)}",
            "schemaURL": f"{_SCHEMA}/RunEvent",
        }


def _dataset(namespace: str, name: str, kind: str, **facets: Mapping[str, Any]) -> _Document:
    base = {"inputFacets": "InputDatasetFacet", "outputFacets": "OutputDatasetFacet"}[kind]
    return {"namespace": namespace, "name": name, kind: _facets(facets, base)}


def _facets(facets: Mapping[str, Mapping[str, Any]], base: str) -> _Document:
    """Facets with the two members that each must have."""
    needed = {"_producer": f"urn:{_PRODUCER}:{version(_PRODUCER)}", "_schemaURL": f"{_SCHEMA}/{base}"}
    return {name: {**needed, **facet} for name, facet in facets.items()}
