"""Errors of Spark as one sentence: the error of our own code is in the middle of sixty lines of Java and
Python."""

from __future__ import annotations

import re
from typing import Final

from mom_pipeline.errors import DATA_LOSS, FAILED, TEMPORARY, USAGE, PipelineError

_GO_ON: Final = (
    "to go on with what is left, `mom pipeline offsets NAME --set POSITIONS` moves an archive, and "
    "`mom pipeline run statistics --from MINUTE` begins later"
)
#: by the codes of the data source's errors: exit code, and how to fix it where the text does not show it
_CODES: Final = {
    "INVALID_OPTION": (USAGE, ""),
    "DATA_LOSS": (DATA_LOSS, _GO_ON),
    "JOURNAL_REPLACED": (DATA_LOSS, "another --name begins with the journal as it is now"),
    "JOURNAL_UNREADABLE": (FAILED, ""),
    "BROKER_UNREACHABLE": (TEMPORARY, "run it again when the broker can be reached"),
    "ACCESS_DENIED": (FAILED, ""),
    "ROWS_REFUSED": (FAILED, ""),
    "NO_ROOM": (TEMPORARY, "run it again when the queue has room"),
    "STAGES_LOST": (TEMPORARY, "run it again; it goes on where it ended"),
}
_OURS: Final = re.compile(rf"\[({'|'.join(_CODES)})\] ([^\n]*)")
#: the line of a traceback that has the error
_LAST_LINE: Final = re.compile(r"^(?:[A-Za-z_]\w*\.)*([A-Z]\w*): (\S[^\n]*)$", re.MULTILINE)
_TRACEBACK: Final = "Traceback (most recent call last)"
#: begins the description of a streaming query behind its error
_QUERY: Final = "=== Streaming Query ==="
_LONGEST: Final = 1000


def explain(error: BaseException) -> PipelineError:
    """The sentence of an error, and the exit code of a run that it ends."""
    if isinstance(error, PipelineError):
        return error
    text = str(error).partition(_QUERY)[0]
    ours = _OURS.search(text)
    if ours is not None:
        code, fix = _CODES[ours[1]]
        return PipelineError(f"[{ours[1]}] {ours[2].strip()}"[:_LONGEST], fix, code)
    lines = _LAST_LINE.findall(text.partition(_TRACEBACK)[2])
    if lines:
        name, sentence = lines[-1]
        return PipelineError(f"{sentence} ({name})"[:_LONGEST], "")
    first = next((line.strip() for line in text.splitlines() if line.strip()), "without a text")
    return PipelineError(f"{first} ({type(error).__name__})"[:_LONGEST], "--verbose shows the whole error")
