"""Files and directories of the settings that other users must not write, since they decide about rights."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from broker_app.base.process import ownership
from broker_app.base.process.ownership import ForeignPath
from broker_app.config import Config, ConfigError, settings
from broker_app.storage.factory import journal_directories
from mom_site.database import sqlite_file

#: directories all of whose content is used
_TREES = ("data", "reflex_path")


class Fault(NamedTuple):
    """A path that other users can write, and the variable of the setting that names it."""

    variable: str
    error: ForeignPath


def faults(
    config: Config, environment: Mapping[str, str] = os.environ, user: int | None = None
) -> Iterator[Fault]:
    """The paths of the settings that users other than `user`, that of this process by default, can write."""
    for variable, path, check in _named(config, environment):
        try:
            check(path, user)
        except ForeignPath as error:
            yield Fault(variable, error)


def refuse_foreign(config: Config) -> None:
    """Raise ConfigError with all faults, if there are any."""
    found = [f"{variable}: {error}" for variable, error in faults(config)]
    if found:
        raise ConfigError("\n".join(found))


def make_directories(config: Config) -> None:
    """Create the directories that do not exist yet, closed to others. Raises ForeignPath for one that another
    user has created meanwhile."""
    for directory in (config.data, *(place.parent for place in journal_directories(config).values())):
        with suppress(OSError):  # who writes there reports it
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        ownership.check(directory)


def _named(
    config: Config, environment: Mapping[str, str]
) -> Iterator[tuple[str, Path, Callable[[Path, int | None], None]]]:
    for setting in settings():
        value = getattr(config, setting.name)
        file_variable = f"{setting.variable}_FILE"
        if setting.rule.secret and file_variable in environment:
            yield file_variable, Path(environment[file_variable]), ownership.check
        if not isinstance(value, Path) or (setting.rule.shipped is not None and not value.exists()):
            continue  # what comes with MOM is as safe as its code
        check = ownership.check_tree if setting.name in _TREES else ownership.check
        yield setting.variable, value, check
    for name, directory in journal_directories(config).items():
        yield f"MOM_{name.upper()}", directory, ownership.check_tree
    database = sqlite_file(config.database, config.data)
    if config.database is not None and database is not None:
        yield "MOM_DATABASE", database, ownership.check
