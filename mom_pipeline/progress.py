"""The progress of a run, and its reports to the console's API."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import deque
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, Protocol
from urllib.parse import quote

from mom_pipeline.errors import TEMPORARY, PipelineError
from mom_pipeline.stop import Stop

STARTING, RUNNING, IDLE, STOPPING = "starting", "running", "idle", "stopping"
DONE, STOPPED, FAILED = "done", "stopped", "failed"

#: seconds between reports; the console believes a run dead after 30
REPORT_S: Final = 2.0
#: batches that wait for a report at most
_MAX_BATCHES: Final = 100
_LONGEST_ERROR: Final = 2000
#: kinds of sentences about the console, each of which is shown once until it is over
_UNREACHABLE, _REFUSED, _NOT_KEPT = "unreachable", "refused", "not kept"


class ApiUnreachable(Exception):
    """The API does not answer."""


class ApiRefused(Exception):
    """The API answers with a problem; `conflict` when another run has the name, `missing` when it does not
    know what it was asked for."""

    def __init__(self, text: str, *, conflict: bool = False, missing: bool = False) -> None:
        super().__init__(text)
        self.conflict = conflict
        self.missing = missing


class Api(Protocol):
    """The REST API of a broker."""

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """The decoded reply. Raises ApiUnreachable or ApiRefused."""
        ...


class Progress:
    """The work of a run so far. The run changes it, and a thread reports it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._batches: deque[dict[str, Any]] = deque(maxlen=_MAX_BATCHES)
        self._facts: dict[str, Any] = {"state": STARTING, "rows": 0}
        #: by broker: positions as in the offsets of Spark
        self.places: Mapping[str, Mapping[str, int]] = {}
        #: positions that were read, and those of the whole run as far as they are known
        self.read, self.total = 0, 0
        #: the source reports the cursor while it runs
        self.reports_cursor = False

    @property
    def rows(self) -> int:
        """The rows that were processed."""
        return int(self._facts["rows"])

    @property
    def state(self) -> str:
        """The state of the run."""
        return str(self._facts["state"])

    @property
    def lag(self) -> int | None:
        """The positions that were not read."""
        return self._facts.get("lag")

    @property
    def positions(self) -> dict[str, int]:
        """By broker: the position up to which everything was processed."""
        return {name: at["pos"] for name, at in self._facts.get("offsets", {}).items()}

    def set(self, **facts: Any) -> None:
        """Change facts of the next report: state, offsets, lag, lag_s, error."""
        with self._lock:
            self._facts.update(facts)

    def reach(self, places: Mapping[str, Mapping[str, int]]) -> None:
        """Everything before these positions was processed."""
        self.places = places
        self.set(offsets={name: {"epoch": at["epoch"], "pos": at["pos"]} for name, at in places.items()})

    def batch(self, rows: int, ms: int) -> None:
        """Count the rows of a batch that is done."""
        with self._lock:
            self._facts["rows"] += rows
            number = self._facts.setdefault("batch", -1) + 1
            self._facts["batch"] = number
            at = datetime.now(UTC).isoformat()
            self._batches.append({"number": number, "at": at, "rows": rows, "ms": ms})

    def reports(self) -> list[dict[str, Any]]:
        """The bodies of the reports that are due: one for each new batch, at least one."""
        with self._lock:
            facts = {name: value for name, value in self._facts.items() if name != "batch"}
            found = [{**facts, "batch": batch} for batch in self._batches] or [facts]
            self._batches.clear()
        return found


class Reporter:
    """Registers a run under its name, and reports its progress every two seconds. A run without an API that
    answers goes on, and shows that once."""

    def __init__(
        self,
        api: Api,
        name: str,
        run_id: str,
        progress: Progress,
        stop: Stop,
        say: Callable[[str], None],
    ) -> None:
        self._api = api
        self._name = name
        self._path = f"/pipeline/runs/{quote(name, safe='')}"
        self._run_id = run_id
        self._progress = progress
        self._stop = stop
        self._say = say
        #: kinds of sentences that were shown, by the run or by the thread that reports
        self._shown = set[str]()
        self._showing = threading.Lock()
        self._start: dict[str, Any] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._report_until_ended, name="reports", daemon=True)
        #: position that was reported last
        self._cursor = -1

    def begin(self, job: str, parameters: Mapping[str, Any], command: str = "") -> None:
        """Register the run, which `command` starts again. Raises PipelineError while another one has its
        name."""
        self._start = {
            "job": job, "run_id": self._run_id, "host": socket.gethostname(), "parameters": dict(parameters),
            "command": command,
        }  # fmt: skip
        try:
            self._call("PUT", self._path, self._start)
        except ApiRefused as error:
            if error.conflict:
                fix = "wait for it, stop it, or give this run another --name"
                raise PipelineError(str(error), fix, TEMPORARY) from error
            self._show_once(_REFUSED, f"the console does not show this run: {error}")
        self._thread.start()

    def end_killed(self, run_id: str) -> None:
        """Report that another run of this name has ended, which could not do so."""
        body = {"run_id": run_id, "state": FAILED, "error": "its process was killed"}
        with contextlib.suppress(ApiRefused):  # the console does not know it any more
            self._call("POST", f"{self._path}/report", body)

    def store(self, resource: str, content: Mapping[str, Any]) -> None:
        """Have the console store a result of the run. One that does not is no failure of the run."""
        try:
            self._ask("PUT", resource, content)
        except ApiRefused as error:
            self._show_once(_REFUSED, f"the console does not show the result of this run: {error}")

    def end(self, state: str, error: str = "") -> None:
        """Report how the run ended, and stop reporting."""
        self._progress.set(state=state, error=error[:_LONGEST_ERROR])
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        self._progress.reports_cursor = False  # the source does not report its last batch
        self._report()

    def _report_until_ended(self) -> None:
        while not self._ended.wait(REPORT_S):
            self._report()

    def _report(self) -> None:
        places = self._progress.places
        if places and (self._ended.is_set() or _furthest(places) != self._cursor):
            self._report_cursor(places)
        try:
            for body in self._progress.reports():
                reply = self._ask("POST", "report", body)
                if reply and reply.get("stop_requested"):
                    self._stop.request("it was requested by `mom pipeline stop` or in the console")
        except ApiRefused as error:
            if error.conflict:
                self._stop.request(str(error))
            else:
                self._show_once(_REFUSED, f"the console does not show this run: {error}")

    def _report_cursor(self, places: Mapping[str, Mapping[str, int]]) -> None:
        """Have the broker keep its journal from the position on that this run has reached, if that is the
        broker whose API this is; learn how old it is."""
        try:
            span = self._call("GET", "/journal/span")
            for place in places.values():
                if span and span["journal"] == f"{place['tag']:x}":
                    path = f"/pipeline/cursors/{quote(self._name, safe='')}"
                    if self._progress.reports_cursor:
                        cursor = self._call("GET", path)
                    else:
                        cursor = self._call("PUT", path, {"position": place["pos"]})
                    self._progress.set(lag_s=cursor["lag_s"] if cursor else None)
        except ApiRefused as error:
            if not error.missing:  # the source has not reported it yet
                self._show_once(_NOT_KEPT, f"the broker does not keep its journal for this run: {error}")
        self._cursor = _furthest(places)

    def _ask(self, method: str, resource: str, content: Mapping[str, Any]) -> Any:
        """The reply to a request about this run, which is registered again where it is not known any more,
        such as one that was removed in the console. Raises ApiRefused."""
        path, body = f"{self._path}/{resource}", {**content, "run_id": self._run_id}
        try:
            reply = self._call(method, path, body)
        except ApiRefused as error:
            if not error.missing:
                raise
            self._call("PUT", self._path, self._start)
            reply = self._call(method, path, body)
        if reply is not None:
            self._shown.discard(_REFUSED)
        return reply

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        """The reply; None when the API does not answer. Raises ApiRefused."""
        try:
            reply = self._api.call(method, path, body)
        except ApiUnreachable as error:
            self._show_once(_UNREACHABLE, f"{error}; the run goes on without the console")
            return None
        except ApiRefused:
            self._shown.discard(_UNREACHABLE)
            raise
        self._shown.discard(_UNREACHABLE)
        return reply

    def _show_once(self, kind: str, sentence: str) -> None:
        """Show a sentence, unless one of its kind was shown and is not over."""
        with self._showing:
            is_new = kind not in self._shown
            self._shown.add(kind)
        if is_new:
            self._say(sentence)


def _furthest(places: Mapping[str, Mapping[str, int]]) -> int:
    return max(place["pos"] for place in places.values())
