"""Sealing: secrets in the configuration database are encrypted, with a key that is made of the secret key.

The newest secret key seals; former ones, which stand below it in the file of the secret key, still open.
"""

from __future__ import annotations

import base64
from functools import lru_cache

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings

_PURPOSE = b"mom: secrets in the configuration database"


class Unreadable(Exception):
    """A secret was sealed with a key that is not here."""

    def __init__(self) -> None:
        super().__init__(
            "it was encrypted with another secret key: put that key below the new one in the file of the "
            "secret key, or set the password again"
        )


def seal(secret: str) -> str:
    """Nothing is sealed as nothing, so that it shows whether there is a secret."""
    return _keys().encrypt(secret.encode()).decode("ascii") if secret else ""


def unseal(sealed: str) -> str:
    """Raises Unreadable."""
    try:
        return _keys().decrypt(sealed.encode()).decode() if sealed else ""
    except InvalidToken:
        raise Unreadable from None


def resealed(sealed: str) -> str:
    """The same secret encrypted with the newest key; unchanged if it already is. Raises Unreadable."""
    newest = _boxes(str(settings.SECRET_KEY), ())
    try:
        newest.decrypt(sealed.encode())
    except InvalidToken:
        return seal(unseal(sealed))
    return sealed


def _keys() -> MultiFernet:
    return _boxes(str(settings.SECRET_KEY), tuple(settings.SECRET_KEY_FALLBACKS))


@lru_cache(maxsize=4)
def _boxes(newest: str, former: tuple[str, ...]) -> MultiFernet:
    return MultiFernet([_box(key) for key in (newest, *former)])


def _box(secret_key: str) -> Fernet:
    derived = HKDF(algorithm=SHA256(), length=32, salt=None, info=_PURPOSE).derive(secret_key.encode())
    return Fernet(base64.urlsafe_b64encode(derived))
