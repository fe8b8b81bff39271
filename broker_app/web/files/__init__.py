"""Configuration files: a `zero.config` is applied to the database, and again when it changes.

A file is applied completely or not at all; only differences are written; resources that exist already from
elsewhere stay as they are. Holds the fingerprints and the history of reloads. `web.actions` writes the
models.
"""

from broker_app.web.files.file_watcher import FileWatcher
from broker_app.web.files.plan import FilePlan, Planned, carry_out, check, needing_restart, owner_of, release
from broker_app.web.files.reloads import REFUSED, Reload, shown_error, shown_plan

__all__ = [
    "REFUSED",
    "FilePlan",
    "FileWatcher",
    "Planned",
    "Reload",
    "carry_out",
    "check",
    "needing_restart",
    "owner_of",
    "release",
    "shown_error",
    "shown_plan",
]
