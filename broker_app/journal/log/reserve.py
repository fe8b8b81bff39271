"""Blocks reserved in a file, to be freed when the disk is full and something small must be written."""

from broker_app.journal.errors import JournalFailed
from broker_app.journal.files import Files

RESERVE = "reserve"


class Reserve:
    """Owns the file. `size` is what it holds now, `wanted` what it holds when there is space; bytes."""

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

    def free(self, needed: int) -> bool:
        """Free `needed` bytes, or what there is; returns whether there was any."""
        if not self.size:
            return False
        self.size = max(0, self.size - needed)
        file = self._files.open(RESERVE, create=True)
        try:
            file.truncate(self.size)
        finally:
            file.close()
        return True
