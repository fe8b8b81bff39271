"""The database of the configuration: a SQLite file in the data directory, or one that brokers share."""

import shutil
from pathlib import Path
from typing import Any, Final

import dj_database_url
from dj_database_url import ParseError, UnknownSchemeError
from django.db import OperationalError, connection

from broker_app.config import ConfigError

_SQLITE = "django.db.backends.sqlite3"
# What is removed or replaced is overwritten, so that a former password stays nowhere in the file.
_PRAGMAS = "PRAGMA journal_mode=WAL; PRAGMA secure_delete=ON"
_POSTGRES = "django.db.backends.postgresql"
#: bytes of the file by which processes share the log of SQLite
_SHARED_LOG_BYTES: Final = 32 * 1024


def database(url: str | None, data: Path) -> dict[str, Any]:
    """Django's settings of the database at `url`; without one, of the file in `data`.

    Raises ConfigError, without the address: it can contain a password.
    """
    if url is None:
        return _sqlite(file_of(data))
    try:
        found: dict[str, Any] = dict(dj_database_url.parse(url))
    except (ParseError, UnknownSchemeError, ValueError) as error:
        raise _wrong() from error
    if found["ENGINE"] == _SQLITE and Path(found["NAME"]).is_absolute():
        return _sqlite(Path(found["NAME"]))
    if found["ENGINE"] != _POSTGRES:
        raise _wrong()
    try:
        import psycopg  # noqa: F401 - needed by Django for PostgreSQL; optional
    except ImportError as error:
        raise ConfigError(
            "MOM_DATABASE: PostgreSQL needs one more package: pip install 'mom-broker[postgres]'"
        ) from error
    return {**found, "CONN_HEALTH_CHECKS": True}


def pipeline_database(url: str | None, data: Path) -> dict[str, Any]:
    """Django's settings of the database of the data pipeline: that of the brokers, or a file of its own."""
    return _sqlite(data / "pipeline.sqlite3") if url is None else database(url, data)


def file_of(data: Path) -> Path:
    """The file of the configuration, where no database is named."""
    return data / "config.sqlite3"


def sqlite_file(url: str | None, data: Path) -> Path | None:
    """The SQLite file of the configuration; None for a database of another kind. Raises ConfigError."""
    found = database(url, data)
    return Path(found["NAME"]) if found["ENGINE"] == _SQLITE else None


def _sqlite(file: Path) -> dict[str, Any]:
    # IMMEDIATE takes the write lock at the start of a transaction, so that two processes wait for each
    # other instead of failing half-way.
    options = {"timeout": 10, "transaction_mode": "IMMEDIATE", "init_command": _PRAGMAS}
    return {"ENGINE": _SQLITE, "NAME": file, "OPTIONS": options}


def overwrite_leftovers() -> None:
    """Rebuild, once, a SQLite file in which a former version left deleted or replaced content."""
    with connection.cursor() as cursor:
        if connection.vendor != "sqlite" or cursor.execute("PRAGMA user_version").fetchone()[0]:
            return
        cursor.execute("VACUUM")
        cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        cursor.execute("PRAGMA user_version = 1")


def _wrong() -> ConfigError:
    return ConfigError(
        "MOM_DATABASE is no address of a database: write postgresql://USER:PASSWORD@HOST/NAME, "
        "or sqlite:////PATH/OF/A/FILE"
    )


def _is_full(data: Path) -> bool:
    try:
        return shutil.disk_usage(data).free < _SHARED_LOG_BYTES
    except OSError:
        return False


def trouble(error: OperationalError, data: Path) -> str:
    """The error of the configuration in `data`, or of the database that brokers share."""
    if "disk" not in str(error) and "readonly" not in str(error):
        return f"the configuration cannot be used: {error}"
    reason = str(error)
    # SQLite reports an I/O error where it cannot even make the file by which processes share its log.
    if "full" not in reason and _is_full(data):
        reason = f"the disk is full ({reason})"
    fix = "make room on that disk" if "full" in reason else "see `mom doctor`"
    return (
        f"the configuration cannot be written: {reason}\n  where: {data.resolve()}\n"
        f"  fix:   {fix}, or choose another directory with --data"
    )
