"""The file watcher: a configuration file and its includes are followed while the node runs.

A file counts as changed when its modification time, size or inode differs (not: is newer) and no longer
changes. Contents are compared, too, so that touching a file reloads nothing.

With the setting `smash_reload`, only the file that `configFile` names is followed, with its
includes. The other files stay as they were read at the start.
"""

from __future__ import annotations

import contextlib
import logging
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Thread

from django.db import DatabaseError, connection

from broker_app import zero
from broker_app.config import Config, words
from broker_app.web.actions import FILE, Actor
from broker_app.web.files.plan import carry_out, needing_restart, owner_of
from broker_app.web.files.reloads import (
    APPLIED,
    REFUSED,
    UNCHANGED,
    FilesStatus,
    FileStatus,
    Reload,
    shown_error,
)

log = logging.getLogger(__name__)

#: seconds between two checks; a changed file is read once two checks found it the same
POLL_S = 0.15
MAX_RELOADS = 100
#: counted in `totals` in addition to the outcomes of reloads
TOUCHED = "touched"

_CONFIG_FILE_KEY = "/config/messaging/broker/configFile"
_Seen = Mapping[str, zero.FileState | None]
_Content = tuple[bytes, zero.Fingerprint] | zero.Missing


class _HeldFolder:
    """A folder in which some files are held: they keep the content that was read first."""

    def __init__(self, folder: zero.Folder) -> None:
        self._folder = folder
        self._held: dict[str, _Content] = {}
        self._read: dict[str, _Content] = {}

    def check(self, name: str) -> zero.FileState | None:
        return self._folder.stat(name)

    def read(self, name: str) -> tuple[bytes, zero.Fingerprint]:
        content = self._held[name] if name in self._held else self._read_again(name)
        if isinstance(content, zero.Missing):
            raise content
        return content

    def _read_again(self, name: str) -> _Content:
        try:
            self._read[name] = self._folder.read(name)
        except zero.Missing as missing:
            self._read[name] = missing
        return self._read[name]

    def begin(self) -> None:
        """Forget what was read, except of held files."""
        self._read.clear()

    def hold(self, names: Collection[str]) -> None:
        """Hold these files as they were read last, or as missing."""
        self._held |= {name: file for name, file in self._read.items() if name in names}


class FileWatcher:
    """The files of one node. One thread checks them; any thread may read the state. That thread calls
    `on_reload` with each reload, after it was applied."""

    def __init__(self, path: Path, running: Config) -> None:
        self._path = path
        self._running = running
        self._follows_all = not running.smash_reload
        self._owner = owner_of(running)
        self._files = _HeldFolder(zero.Folder(path.parent, owned=True))
        self.on_reload: Callable[[Reload], object] = _ignore
        self._words = words(path.parent)
        #: the files that were read last without errors
        self._read: Mapping[str, zero.File] = {}
        self._read_at: datetime | None = None
        self._errors: tuple[zero.ZeroError, ...] = ()
        self._warnings: tuple[zero.ZeroError, ...] = ()
        self._restart: tuple[str, ...] = ()
        #: the file that `configFile` names
        self._config_file: str | None = None
        #: the followed files, and their state when they were read
        self._seen: _Seen = {path.name: None}
        self._moving: _Seen | None = None
        self._reloads: deque[Reload] = deque(maxlen=MAX_RELOADS)
        self._totals = Counter(dict.fromkeys((APPLIED, UNCHANGED, REFUSED, TOUCHED), 0))

    # ------------------------------------------------------------------ reading

    def start(self) -> None:
        """Read the files at the start. Raises zero.InvalidFiles: a node does not start with an invalid
        file."""
        self._take(self._load(), "start")

    def check(self) -> Reload | None:
        """Check the files once; return the reload, if they have changed and are not being written."""
        now = {name: self._files.check(name) for name in self._seen}
        if now == self._seen:
            self._moving = None
            return None
        if now != self._moving:
            self._moving = now
            return None
        trigger = ", ".join(sorted(name for name in now if now[name] != self._seen.get(name)))
        self._seen, self._moving = now, None
        return self._reload(trigger)

    def recheck(self) -> None:
        """Let the next checks read the files, changed or not."""
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
        """Apply the files, all or nothing. Raises zero.InvalidFiles."""
        plan, version = carry_out(Actor(f"file {self._path.name}", FILE, reason=trigger), loaded, self._owner)
        self._read, self._read_at, self._errors = loaded.files, datetime.now(UTC), ()
        self._config_file = loaded.config_file
        self._warnings = (*loaded.warnings, *self._hold_others(loaded))
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
        self.on_reload(reload)

    def _hold_others(self, loaded: zero.Loaded) -> Iterator[zero.ZeroError]:
        """If only one file is followed, hold all others; yield a warning if there is none."""
        if self._follows_all:
            return
        name = loaded.config_file
        recheck = set(zero.with_included(loaded.files, name)) if name is not None else set()
        self._files.hold(loaded.looked_for.keys() - recheck)
        if name is None:
            detail = (
                f"no file is followed: smash_reload is set, and {_CONFIG_FILE_KEY} names none. "
                "Put connections that may change into a separate file, which needs both lines: "
                f'@include "brokers.config" and {_CONFIG_FILE_KEY} = "brokers.config"'
            )
            yield zero.ZeroError(zero.Position(self._path.name, 1, 1), detail)

    def _follow(self, looked_for: Mapping[str, zero.Fingerprint | None]) -> None:
        """Follow these files from now on, and those that were used last."""
        seen = {name: self._seen.get(name) for name in self._read}
        if not self._follows_all:
            name = self._config_file
            looked_for = {name: looked_for.get(name)} if name is not None else {}
            seen = {}
        for name, fingerprint in looked_for.items():
            if fingerprint is not None:
                seen[name] = fingerprint.state
            elif name not in self._seen:
                seen[name] = self._files.check(name)
            else:
                seen[name] = self._seen[name]
        self._seen = seen

    # ------------------------------------------------------------------ the thread

    @contextlib.contextmanager
    def following(self) -> Iterator[None]:
        """Follow the files in a thread within the `with` block."""
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
            while not stop.wait(POLL_S):
                try:
                    self.check()
                except DatabaseError as error:
                    self.recheck()
                    log.warning("the content of %s cannot be written now: %s", self._path.name, error)
                except Exception:
                    log.exception("%s could not be followed; the next change of it is", self._path.name)
        finally:
            connection.close()

    # ------------------------------------------------------------------ reports

    @property
    def restart(self) -> tuple[str, ...]:
        """Settings of the node with other values in the files than at the start."""
        return self._restart

    @property
    def errors(self) -> tuple[zero.ZeroError, ...]:
        """The errors of the files as they are now; their former content stays in effect."""
        return self._errors

    def shown(self) -> FilesStatus:
        """The files, how they were read, and the reloads, the newest first."""
        return {
            "main": str(self._path),
            "state": "refused" if self._errors else "read",
            "read": self._read_at,
            "restart": list(self._restart),
            "follows": "all" if self._follows_all else "config-file",
            "config_file": self._config_file,
            "totals": dict(self._totals),
            "errors": [shown_error(error) for error in self._errors],
            "warnings": [shown_error(warning) for warning in self._warnings],
            "files": [self._shown_file(name) for name in dict.fromkeys((*self._read, *self._seen))],
            "reloads": [reload.shown() for reload in reversed(tuple(self._reloads))],
        }

    def _shown_file(self, name: str) -> FileStatus:
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


def _ignore(reload: Reload) -> None:
    """The default listener for reloads."""


def _digests(files: Mapping[str, zero.File]) -> dict[str, str]:
    return {name: file.fingerprint.sha256 for name, file in files.items()}
