"""The failure of a pipeline that a person can repair, and the exit codes of runs."""

from __future__ import annotations

from typing import Final

#: exit codes of `mom pipeline run`. The last one is EX_TEMPFAIL of sysexits.h: the same command may succeed
#: later
FAILED: Final = 1
USAGE: Final = 2
DATA_LOSS: Final = 3
DIFFERENCES: Final = 4
TEMPORARY: Final = 75


class PipelineError(Exception):
    """Ends a pipeline with an exit `code`. Has `what` happened, and how to `fix` it."""

    def __init__(self, what: str, fix: str, code: int = FAILED) -> None:
        super().__init__(f"{what}; {fix}" if fix else what)
        self.what = what
        self.fix = fix
        self.code = code
