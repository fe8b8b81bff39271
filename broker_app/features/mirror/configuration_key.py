"""Seals the configuration that mirrors get through the journal's store, with a key that is not in it.

A sealed note names the key by an id; who has the store alone can neither read nor make one.

{"key": id of the key, "sealed": Fernet token of {"name": of the broker, "database": SQLite file in base64}}
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode, urlsafe_b64encode
from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

_SEALING, _NAMING = b"mom: configuration in the store of a journal", b"mom: id of a key"
_ID_BYTES = 8


class ConfigurationRefused(Exception):
    """A carried configuration that is not authentic, or cannot be opened here."""


class ConfigurationKey:
    """The file of `MOM_SECRET_KEY_FILE`, the same at all brokers of this `name`: its first key seals, those
    below it open too. It is read each time: a key that is added counts at once."""

    def __init__(self, path: Path, name: str) -> None:
        self._path = path
        self._name = name

    def knows(self, secret_key: str) -> bool:
        """Return True if the file has this key."""
        return secret_key in self._keys()

    def seal(self, database: bytes) -> bytes:
        """The note with a database. Raises OSError."""
        newest = self._keys()[0]
        document = {"name": self._name, "database": b64encode(database).decode("ascii")}
        token = _box(newest).encrypt(json.dumps(document).encode())
        return json.dumps({"key": _id(newest), "sealed": token.decode("ascii")}).encode()

    def open(self, note: dict[str, object]) -> bytes:
        """The database of a sealed note. Raises ConfigurationRefused, and OSError."""
        keys = {_id(key): key for key in self._keys()}
        sealed_with = str(note["key"])[: 2 * _ID_BYTES]
        if sealed_with not in keys:
            raise ConfigurationRefused(
                f"it was sealed with the key {sealed_with}, and {self._path} has {', '.join(keys)}: copy the "
                "file of MOM_SECRET_KEY_FILE from the active broker to this one"
            )
        try:
            document = json.loads(_box(keys[sealed_with]).decrypt(str(note["sealed"]).encode()))
        except InvalidToken:
            raise ConfigurationRefused(
                "it was changed in the store without the key. Find out who can write there; the "
                "active broker replaces it with its next change, and when it starts"
            ) from None
        if document["name"] != self._name:
            raise ConfigurationRefused(
                f"it is that of the broker {document['name']!r}, and was put into the store of {self._name!r}"
            )
        return b64decode(document["database"])

    def _keys(self) -> list[str]:
        keys = self._path.read_text("ascii").split()
        if not keys:
            raise ConfigurationRefused(f"the file of MOM_SECRET_KEY_FILE, {self._path}, has no key in it")
        return keys


def _id(key: str) -> str:
    return _derived(key, _NAMING, _ID_BYTES).hex()


def _box(key: str) -> Fernet:
    return Fernet(urlsafe_b64encode(_derived(key, _SEALING, 32)))


def _derived(key: str, purpose: bytes, length: int) -> bytes:
    return HKDF(algorithm=SHA256(), length=length, salt=None, info=purpose).derive(key.encode())
