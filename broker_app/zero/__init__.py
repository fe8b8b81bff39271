"""The `zero.config` format: files of `/context/uri = JSON` lines that include each other.

`load` reads a file and all that it includes, checks them as a whole, and returns settings of the node and
documents, each value with file, line and column; or it raises `InvalidFiles` with all errors, and nothing
of the files takes effect. The caller supplies the known settings (`SettingReaders`), so this package depends
neither on Django nor on the configured resources.
"""

from broker_app.zero.errors import InvalidFiles, ZeroError
from broker_app.zero.file_reader import File, FileState, Fingerprint, Folder, Missing, Texts, with_included
from broker_app.zero.keys import KEYS
from broker_app.zero.loaded import Document, Loaded, SettingReaders, SettingValue
from broker_app.zero.loader import load
from broker_app.zero.positions import Position

__all__ = [
    "KEYS",
    "Document",
    "File",
    "FileState",
    "Fingerprint",
    "Folder",
    "InvalidFiles",
    "Loaded",
    "Missing",
    "Position",
    "SettingReaders",
    "SettingValue",
    "Texts",
    "ZeroError",
    "load",
    "with_included",
]
