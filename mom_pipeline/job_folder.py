"""The folder of a job on this machine: its checkpoint, and the parameters that belong to it.

<state>/pipeline/<name>/checkpoint/     where Spark notes what it has read
<state>/pipeline/<name>/job.json        the job that wrote it
<state>/pipeline/<name>/lineage/        what each run has read and written
<state>/pipeline/<name>/lock            held while it runs

The state of a user has a folder for each broker, `brokers/<host>-<port>`, so that runs of several may have
the same name.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from mom_pipeline import archive_files
from mom_pipeline.errors import TEMPORARY, USAGE, PipelineError
from pyspark_mom.option_types import HTTP

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._:-]{0,99}")
_MAX_BYTES: Final = 1_000_000
#: names of this machine, and the one that stands for all
_LOCAL: Final = "127.0.0.1"
_LOOPBACK: Final = ("localhost", "::1")


@dataclass(frozen=True)
class Job:
    """A job under a name: what must stay the same while its checkpoint is used. `version` is that of the job,
    `schema` that of the table it reads."""

    name: str
    job: str
    version: int
    schema: int
    parameters: Mapping[str, Any]

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise PipelineError(
                f"{self.name!r} is no name of a run",
                "use up to 100 of a-z, 0-9, '.', '_', ':' and '-', such as archive:home",
                USAGE,
            )


def state_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """The folder of this user's state: `$XDG_STATE_HOME/mom`, else `~/.local/state/mom`."""
    home = Path(environment.get("HOME", "~")).expanduser()
    return Path(environment.get("XDG_STATE_HOME") or home / ".local" / "state") / "mom"


def broker_folder(state: Path, broker: str, name: str) -> Path:
    """The folder in a user's state for the run of a name at the broker at this address; `state` itself, where
    a former version of MOM began that run."""
    own = state / "brokers" / _host_and_port(broker)
    if _NAME.fullmatch(name) and not (own / "pipeline" / name).exists():
        before = _read(state / "pipeline" / name / "job.json")
        if before is not None and _is_of(before["parameters"], broker):
            return state
    return own


def _is_of(parameters: Mapping[str, Any], broker: str) -> bool:
    """Return whether a run may be one of this broker: it does not read another one."""
    source = str(parameters.get("source", ""))
    return urlsplit(source).scheme not in HTTP or _host_and_port(source) == _host_and_port(broker)


def _host_and_port(address: str) -> str:
    """The host and port of an address as the name of a folder."""
    parts = urlsplit(address)
    host = parts.hostname or ""
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme, 0)
    return f"{re.sub('[^a-z0-9.-]', '_', _LOCAL if host in _LOOPBACK else host)}-{port}"


def stored_job(state: Path, name: str) -> Job:
    """The job whose folder has this name. Raises PipelineError when there is none."""
    path = state.absolute() / "pipeline" / name
    stored = _read(path / "job.json") if re.fullmatch(_NAME, name) else None
    if stored is None:
        known = ", ".join(sorted(file.parent.name for file in path.parent.glob("[!.]*/job.json"))) or "none"
        raise PipelineError(
            f"there is no run {name!r} in {path.parent}",
            f"use one of: {known}; --state names another folder",
            USAGE,
        )
    return Job(**stored)


def _read(file: Path) -> Any:
    """The content of a JSON file; None if there is none. Raises PipelineError."""
    try:
        with file.open(encoding="utf-8") as content:
            return json.loads(content.read(_MAX_BYTES))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise PipelineError(f"{file} cannot be read: {error}", "restore or remove it") from error


class JobFolder:
    """The folder of one job, made when it is locked."""

    def __init__(self, state: Path, job: Job) -> None:
        self.path = state.absolute() / "pipeline" / job.name
        self.checkpoint = self.path / "checkpoint"
        self.job = job

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder. Raises PipelineError while another run on this machine holds it, or when it
        belongs to a job with other parameters."""
        self.path.mkdir(parents=True, exist_ok=True)
        lock = self.path / "lock"
        try:
            with archive_files.held(lock, 0.0):
                if not self.compare():
                    self.write("job.json", self._description())
                yield
        except archive_files.LockTaken as error:
            if error.path != lock:
                raise
            raise PipelineError(
                f"{self.job.name} runs already on this machine",
                f"stop it with mom pipeline stop {self.job.name}, or give this run another --name",
                TEMPORARY,
            ) from error

    def read(self, name: str) -> Any:
        """The content of a JSON file of this folder; None if there is none. Raises PipelineError."""
        return _read(self.path / name)

    def write(self, name: str, content: Any) -> None:
        """Write a JSON file of this folder durably."""
        archive_files.write_durably(self.path / name, json.dumps(content, indent=1, sort_keys=True))

    def compare(self) -> bool:
        """Return whether the folder belongs to this job already. Raises PipelineError when it belongs to one
        with other parameters: Spark itself would go on with its offsets."""
        before = self.read("job.json")
        if before is not None and before != self._description():
            differences = ", ".join(_differences(before, self._description()))
            raise PipelineError(
                f"{self.job.name} was begun with other parameters: {differences}",
                f"give this run another --name, or begin again with mom pipeline reset {self.job.name}",
                USAGE,
            )
        return before is not None

    def _description(self) -> Any:
        return json.loads(json.dumps(asdict(self.job)))


def _differences(before: Any, now: Any) -> Iterator[str]:
    """Each parameter that changed, such as `out: "/a" before, "/b" now`."""
    for one, other in ((before, now), (before.get("parameters") or {}, now["parameters"])):
        for name in sorted({*one, *other} - {"parameters"}):
            if one.get(name) != other.get(name):
                yield f"{name}: {json.dumps(one.get(name))} before, {json.dumps(other.get(name))} now"
