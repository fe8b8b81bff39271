"""Watching: a file and what it includes are followed while the node runs.

A file counts as changed when its time of writing, its size or its inode differs (not: is newer) and has
stopped changing; what is read is compared by content, so that touching a file reloads nothing.

With the setting `follow_files` as "config-file", the one that `configFile` names is followed alone. The
others hold as they were read at the start; those that it includes are read again with it.
"""

from __future__ import annotations

import contextlib
import logging
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Thread
from typing import Any

from django.db import DatabaseError, connection

from broker_app import zero
from broker_app.config import CONFIG_FILE, Config, words
from broker_app.web.actions import FILE, Actor
from broker_app.web.files.plan import carry_out, needing_restart, owner_of
from broker_app.web.files.reloads import APPLIED, REFUSED, UNCHANGED, Reload, shown_error

log = logging.getLogger(__name__)

#: between two looks; a file that is being written is read when two looks found it the same
LOOK_S = 0.15
MOST_RELOADS = 100
#: counted in `totals` in addition to the outcomes of reloads
TOUCHED = "touched"

_CONFIG_FILE_KEY = "/config/messaging/broker/configFile"
_Seen = Mapping[str, zero.FileState | None]
_Content = tuple[bytes, zero.Fingerprint] | zero.Missing


class _AsRead:
    """A folder of which some files are `held`: they are as they were when they were read."""

    def __init__(self, folder: zero.Folder) -> None:
        self._folder = folder
        self._held: dict[str, _Content] = {}
        self._read: dict[str, _Content] = {}

    def look(self, name: str) -> zero.FileState | None:
        return self._folder.stat(name)

    def read(self, name: str) -> tuple[bytes, zero.Fingerprint]:
        content = self._held[name] if name in self._held else self._read_anew(name)
        if isinstance(content, zero.Missing):
            raise content
        return content

    def _read_anew(self, name: str) -> _Content:
        try:
            self._read[name] = self._folder.read(name)
        except zero.Missing as missing:
            self._read[name] = missing
        return self._read[name]

    def begin(self) -> None:
        """Read everything again that is not cached."""
        self._read.clear()

    def hold(self, names: Collection[str]) -> None:
        """Keep these as they were read last, or were not there."""
        self._held |= {name: file for name, file in self._read.items() if name in names}


class FileWatcher:
    """The files of one node. One thread looks at them; anybody may ask for the state. `hear` is called by
    that thread with each reload, after it was carried out."""

    def __init__(self, path: Path, running: Config) -> None:
        self._path = path
        self._running = running
        self._follows_all = running.follow_files != CONFIG_FILE
        self._owner = owner_of(running)
        self._files = _AsRead(zero.Folder(path.parent))
        self.hear: Callable[[Reload], object] = _nobody
        self._words = words(path.parent)
        #: what was read last and could be used
        self._read: Mapping[str, zero.File] = {}
        self._read_at: datetime | None = None
        self._errors: tuple[zero.ZeroError, ...] = ()
        self._warnings: tuple[zero.ZeroError, ...] = ()
        self._restart: tuple[str, ...] = ()
        #: the one that `configFile` names
        self._config_file: str | None = None
        #: the files that are followed, and what was seen of them when they were read
        self._seen: _Seen = {path.name: None}
        self._moving: _Seen | None = None
        self._reloads: deque[Reload] = deque(maxlen=MOST_RELOADS)
        self._totals = Counter(dict.fromkeys((APPLIED, UNCHANGED, REFUSED, TOUCHED), 0))

    # ------------------------------------------------------------------ reading

    def start(self) -> None:
        """The first reading. Raises zero.Bad: a node does not start with a file that it cannot use."""
        self._take(self._load(), "start")

    def look(self) -> Reload | None:
        """One look at the files; what came of it, when they have changed and are not being written."""
        now = {name: self._files.look(name) for name in self._seen}
        if now == self._seen:
            self._moving = None
            return None
        if now != self._moving:
            self._moving = now
            return None
        trigger = ", ".join(sorted(name for name in now if now[name] != self._seen.get(name)))
        self._seen, self._moving = now, None
        return self._reload(trigger)

    def again(self) -> None:
        """The next looks read the files, changed or not."""
        self._seen = dict.fromkeys(self._seen)

    def _reload(self, trigger: str) -> Reload | None:
        try:
            loaded = self._load()
            if not self._errors and _digests(loaded.files) == _digests(self._read):
                log.info("%s was touched and has the same content", trigger)
                self._totals[TOUCHED] += 1
                self._read, self._read_at = loaded.files, datetime.now(UTC)
                return None
            return self._take(loaded, trigger)
        except zero.InvalidFiles as bad:
            return self._refuse(bad, trigger)

    def _load(self) -> zero.Loaded:
        self._files.begin()
        return zero.load(self._path.name, self._files, self._words)

    def _take(self, loaded: zero.Loaded, trigger: str) -> Reload:
        """Carries out what files say. Raises zero.Bad, and then nothing of it holds."""
        plan, version = carry_out(Actor(f"file {self._path.name}", FILE, reason=trigger), loaded, self._owner)
        self._read, self._read_at, self._errors = loaded.files, datetime.now(UTC), ()
        self._config_file = loaded.config_file
        self._warnings = (*loaded.warnings, *self._hold(loaded))
        self._follow(loaded.looked_for)
        self._restart = needing_restart(self._running, loaded)
        outcome = APPLIED if plan.differences else UNCHANGED
        reload = Reload(
            datetime.now(UTC), trigger, outcome, plan, version, self._restart, warnings=self._warnings
        )
        self._note(reload)
        log.info("%s (%s): %s", self._path.name, trigger, reload)
        for warning in self._warnings:
            log.warning("%s", warning)
        for one in plan.kept:
            log.warning("%s: %s %s exists already and stays as it is", one.source, one.kind, one.key)
        if self._restart:
            log.warning("%s: the node has to be restarted for %s", self._path.name, ", ".join(self._restart))
        return reload

    def _refuse(self, bad: zero.InvalidFiles, trigger: str) -> Reload | None:
        """Report errors once. The former content stays in effect."""
        self._follow(bad.looked_for)
        if [str(error) for error in bad.errors] == [str(error) for error in self._errors]:
            return None
        self._errors = tuple(bad.errors)
        reload = Reload(datetime.now(UTC), trigger, REFUSED, errors=self._errors)
        self._note(reload)
        log.error("%s cannot be used; its former content stays in effect:\n%s", self._path.name, bad)
        return reload

    def _note(self, reload: Reload) -> None:
        self._reloads.append(reload)
        self._totals[reload.outcome] += 1
        self.hear(reload)

    def _hold(self, loaded: zero.Loaded) -> Iterator[zero.ZeroError]:
        """The file that is watched, if only one is. Logs a warning if there is none."""
        if self._follows_all:
            return
        name = loaded.config_file
        again = set(zero.with_included(loaded.files, name)) if name is not None else set()
        self._files.hold(loaded.looked_for.keys() - again)
        if name is None:
            detail = (
                f"no file is followed: follow_files is {CONFIG_FILE}, and {_CONFIG_FILE_KEY} names none. "
                "Connections that may change stand in a file of their own, which needs both lines: "
                f'@include "brokers.config" and {_CONFIG_FILE_KEY} = "brokers.config"'
            )
            yield zero.ZeroError(zero.Position(self._path.name, 1, 1), detail)

    def _follow(self, looked_for: Mapping[str, zero.Fingerprint | None]) -> None:
        """Looks at these files from now on, and at those that were used last."""
        seen = {name: self._seen.get(name) for name in self._read}
        if not self._follows_all:
            name = self._config_file
            looked_for = {name: looked_for.get(name)} if name is not None else {}
            seen = {}
        for name, fingerprint in looked_for.items():
            if fingerprint is not None:
                seen[name] = fingerprint.state
            elif name not in self._seen:
                seen[name] = self._files.look(name)
            else:
                seen[name] = self._seen[name]
        self._seen = seen

    # ------------------------------------------------------------------ following

    @contextlib.contextmanager
    def following(self) -> Iterator[None]:
        """Within, the files are followed by a thread of their own."""
        stop = Event()
        thread = Thread(target=self._run, args=[stop], name="files", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def _run(self, stop: Event) -> None:
        try:
            while not stop.wait(LOOK_S):
                try:
                    self.look()
                except DatabaseError as error:
                    self.again()
                    log.warning("the content of %s cannot be written now: %s", self._path.name, error)
                except Exception:
                    log.exception("%s could not be followed; the next change of it is", self._path.name)
        finally:
            connection.close()

    # ------------------------------------------------------------------ reports

    @property
    def restart(self) -> tuple[str, ...]:
        """Settings of the node that the files say otherwise than at the start."""
        return self._restart

    @property
    def errors(self) -> tuple[zero.ZeroError, ...]:
        """The errors of the files as they are now; their former content stays in effect."""
        return self._errors

    def shown(self) -> dict[str, Any]:
        """The files, how they were read, and the reloads, the newest first."""
        return {
            "main": str(self._path),
            "state": "refused" if self._errors else "read",
            "read": self._read_at,
            "restart": list(self._restart),
            "follows": self._running.follow_files,
            "config_file": self._config_file,
            "totals": dict(self._totals),
            "errors": [shown_error(error) for error in self._errors],
            "warnings": [shown_error(warning) for warning in self._warnings],
            "files": [self._shown_file(name) for name in dict.fromkeys((*self._read, *self._seen))],
            "reloads": [reload.shown() for reload in reversed(tuple(self._reloads))],
        }

    def _shown_file(self, name: str) -> dict[str, Any]:
        file, followed = self._read.get(name), name in self._seen
        seen = self._seen.get(name) if followed or file is None else file.fingerprint.state
        wrong = any(error.file == name for error in self._errors)
        state = "missing" if seen is None else "refused" if wrong else "read" if file is not None else "new"
        written = datetime.fromtimestamp(seen[0] / 1e9, UTC) if seen is not None else None
        return {
            "name": name,
            "state": state,
            "followed": followed,
            "written": written,
            "bytes": seen[1] if seen is not None else None,
            "sha256": file.fingerprint.sha256 if file is not None else None,
            "includes": list(file.includes) if file is not None else [],
        }


def _nobody(reload: Reload) -> None:
    """The listener for reloads if there is no other."""


def _digests(files: Mapping[str, zero.File]) -> dict[str, str]:
    return {name: file.fingerprint.sha256 for name, file in files.items()}
