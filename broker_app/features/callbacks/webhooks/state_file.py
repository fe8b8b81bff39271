"""The state of callbacks that outlives a restart: URLs that have passed the challenge, and callbacks that
their receivers have ended. A mirror that takes over asks them again."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from broker_app.features.callbacks.webhooks.callback import Callback

log = logging.getLogger(__name__)

VERIFIED, ENDED = "verified", "ended"
_NAME: Final = "callbacks.json"


class StateFile:
    """The file in the directory `data`, written in a thread, soon after each change; `close` it in the end.
    An entry holds only for the URL and the secret that it is of."""

    def __init__(self, data: Path) -> None:
        self._path = data / _NAME
        #: by name of the callback: state, and the digest of URL and secret
        self._entries: dict[str, list[str]] = {}
        #: there are changes that are not being written yet
        self._changed = False
        self._writing: asyncio.Task[None] | None = None
        try:
            self._entries = _checked(json.loads(self._path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            log.warning(
                "%s cannot be read, so the URLs of callbacks are verified again: %s", self._path, error
            )

    def get(self, callback: Callback) -> str:
        """VERIFIED, ENDED, or empty."""
        state, digest = self._entries.get(callback.name, ("", ""))
        return state if digest == _digest(callback) else ""

    def put(self, callback: Callback, state: str) -> None:
        """Keep the state of a callback; an empty one is forgotten."""
        if state:
            self._entries[callback.name] = [state, _digest(callback)]
        else:
            self._entries.pop(callback.name, None)
        self._write_soon()

    def forget(self, name: str) -> None:
        """Forget a callback that was deleted."""
        if self._entries.pop(name, None) is not None:
            self._write_soon()

    def keep_only(self, names: set[str]) -> None:
        """Forget callbacks that are no longer configured."""
        if gone := self._entries.keys() - names:
            for name in gone:
                del self._entries[name]
            self._write_soon()

    async def close(self) -> None:
        """Return when everything is written."""
        if self._writing is not None:
            await self._writing

    def _write_soon(self) -> None:
        self._changed = True
        if self._writing is None:
            self._writing = asyncio.create_task(self._write_changes(), name="the state of callbacks")

    async def _write_changes(self) -> None:
        while self._changed:
            self._changed = False
            await asyncio.to_thread(_write, self._path, dict(self._entries))
        self._writing = None


def _write(path: Path, entries: Mapping[str, list[str]]) -> None:
    draft = path.with_suffix(".draft")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(entries, file)
        os.replace(draft, path)
    except OSError as error:  # a full disk: after a restart, URLs are verified again
        log.warning("the state of callbacks cannot be written to %s: %s", path, error.strerror)


def _checked(found: object) -> dict[str, list[str]]:
    """Raises ValueError for content that was not written here."""
    if not isinstance(found, dict) or not all(
        isinstance(entry, list) and len(entry) == 2 and all(isinstance(part, str) for part in entry)
        for entry in found.values()
    ):
        raise ValueError("it is not the state of callbacks")
    return found


def _digest(callback: Callback) -> str:
    return hashlib.sha256(f"{callback.url}\n{callback.secret}".encode()).hexdigest()[:32]
