"""The `zero.config` form: files of `/context/uri = JSON` lines that include each other.

`load` reads a file and all that it includes, checks it whole, and returns settings of the node and documents
of kinds, each value with file, line and column; or it raises `Bad` with everything that is wrong, and nothing
of the file holds. Files are read here and nowhere else; the meaning of what they say is that of whoever loads
them (`Words`), so this room knows neither Django nor what a rule is.
"""

from broker_app.zero.errors import Bad, ZeroError
from broker_app.zero.file_reader import File, Fingerprint, Folder, Missing, Seen, Texts, with_included
from broker_app.zero.keys import KEYS
from broker_app.zero.loaded import Document, Loaded, Said, Words
from broker_app.zero.loader import load
from broker_app.zero.positions import Place

__all__ = [
    "KEYS",
    "Bad",
    "Document",
    "File",
    "Fingerprint",
    "Folder",
    "Loaded",
    "Missing",
    "Place",
    "Said",
    "Seen",
    "Texts",
    "Words",
    "ZeroError",
    "load",
    "with_included",
]
