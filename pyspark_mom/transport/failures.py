"""Errors of files for users of Spark, who cannot start the broker again, as its own errors advise."""

from __future__ import annotations

from pathlib import Path

from broker_app.journal.errors import JournalError
from pyspark_mom.errors import AccessDenied, BrokerUnreachable, MomError


def of_files(broker: str, directory: Path, error: JournalError) -> MomError:
    """The error of a query when files of this directory could not be read."""
    cause = error.__cause__
    if isinstance(cause, PermissionError):
        return AccessDenied(
            f"{broker}: {directory} may not be read by this user; run Spark as the user of the broker, or "
            "read over HTTP"
        )
    if isinstance(cause, OSError):
        return BrokerUnreachable(
            f"{broker}: {cause.filename or directory} cannot be read: {cause.strerror}; url must be a "
            "directory that every machine of Spark can read, or read over HTTP with https://BROKER:8000"
        )
    return BrokerUnreachable(f"{broker}: {error}")
