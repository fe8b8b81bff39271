"""Blocks kept back in a file, to be given up when the disk is full and something small must be written."""

from broker_app.journal.errors import JournalFailed
from broker_app.journal.files import Files

RESERVE = "reserve"


class Reserve:
    """Owns the file. `size` is what it holds now, `wanted` what it holds in good times; bytes."""

    def __init__(self, files: Files, wanted: int) -> None:
        self._files = files
        self.wanted = wanted
        self.size = 0
        #: True while a thread allocates it
        self.filling = False

    def find(self) -> None:
        """Use what an earlier run of the broker left."""
        if RESERVE not in self._files.names():
            return
        file = self._files.open(RESERVE)
        try:
            self.size = file.size()
        finally:
            file.close()

    def fill(self) -> int:
        """Allocate what is wanted, in any thread; what the file holds then."""
        file = self._files.open(RESERVE, create=True)
        try:
            file.reserve(self.wanted)
            return file.size()
        except JournalFailed:
            file.truncate(self.size)
            raise
        finally:
            file.close()

    def give(self, needed: int) -> bool:
        """Give `needed` bytes back to the file system, or what there is; whether there was any."""
        if not self.size:
            return False
        self.size = max(0, self.size - needed)
        file = self._files.open(RESERVE, create=True)
        try:
            file.truncate(self.size)
        finally:
            file.close()
        return True
