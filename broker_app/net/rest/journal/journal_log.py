"""The log of the journal, as endpoints read it: awaited, with its errors as refusals."""

from __future__ import annotations

import asyncio

from broker_app.base.refused import Refused
from broker_app.journal import codec
from broker_app.journal.errors import Busy, JournalError, NoSuchPosition
from broker_app.journal.port import Journal, LogRun
from broker_app.journal.store import Unreachable
from broker_app.net.http.refusals import busy

#: the problem of positions that were let go
HISTORY_GONE = "history-gone"


class JournalLog:
    """Reads stored frames. All methods raise Refused for positions that are not stored, and while the log
    cannot be read."""

    def __init__(self, journal: Journal) -> None:
        self.span = journal.span
        self._journal = journal

    async def read(self, position: int, max_bytes: int) -> LogRun:
        """Frames from that of `position` on, of about `max_bytes`; see `Journal.read_log`."""
        answer: asyncio.Future[LogRun] = asyncio.get_running_loop().create_future()

        def found(run: LogRun | None, error: Exception | None) -> None:
            if answer.done():  # the request has ended
                return
            if run is not None:
                answer.set_result(run)
            else:
                assert error is not None
                answer.set_exception(error)

        self._journal.read_log(position, max_bytes, found)
        try:
            return await answer
        except NoSuchPosition as error:
            raise self._outside(position, error) from error
        except (Busy, Unreachable) as error:
            raise busy(str(error)) from error
        except JournalError as error:
            raise Refused("internal", str(error)) from error

    def check(self, position: int) -> None:
        """Raise Refused unless a position is within the log, or at its end."""
        low, end = self.span()
        if not low <= position <= end:
            raise self._outside(position, None)

    def _outside(self, position: int, error: Exception | None) -> Refused:
        low, end = self.span()
        if position < low:
            detail = f"position {position} is no longer stored: the log begins at {low}"
            return Refused(HISTORY_GONE, detail, low=low, end=end)
        if position > end:
            detail = (
                f"position {position} was never stored: the log ends before {end}; if it was read from this "
                "broker before, its journal was replaced"
            )
            return Refused("conflict", detail, low=low, end=end)
        return busy(str(error))  # it is being let go

    async def time_us(self, position: int) -> int | None:
        """The time when the batch of a position was written, µs since 1970; None at the end of the log."""
        frame = await self._frame(position)
        return None if frame is None else frame.time_us

    async def position_at(self, time_us: int) -> int:
        """The first position of the first batch that was not written before `time_us`; the end if there is
        none. Assumes that the clock was not set back."""
        low, high = self.span()
        while low < high:
            frame = await self._frame((low + high) // 2)
            assert frame is not None, "it is before the end"
            if frame.time_us < time_us:
                low = frame.next_position
            else:
                high = frame.first_position
        return low

    async def _frame(self, position: int) -> codec.Frame | None:
        run = await self.read(position, 1)
        return codec.decode_frame(run.frames, 0)
