"""Secrets, read where they are used: from an environment variable or a file, never from an option."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Final

from pyspark_mom.errors import AccessDenied

#: longest secret, bytes
_MAX_BYTES: Final = 16 * 1024


class Credential:
    """A token, or USER:PASSWORD, in the environment variable or the file that `place` names; nothing
    without."""

    def __init__(self, place: str | None) -> None:
        self._place = place

    def __repr__(self) -> str:
        return f"Credential({self._place!r})"

    def read(self) -> str | None:
        """The secret as it is now, so that a file may be replaced. Raises AccessDenied."""
        if self._place is None:
            return None
        secret = self._of_file(self._place) if "/" in self._place else self._of_environment(self._place)
        if not secret.isprintable() or not secret:
            raise AccessDenied(f"credential: {self._place} is empty, or contains control characters")
        return secret

    def user_and_password(self) -> tuple[str, str] | None:
        """The two halves of USER:PASSWORD; None without a credential. Raises AccessDenied for a token."""
        secret = self.read()
        if secret is None:
            return None
        user, colon, password = secret.partition(":")
        if not colon:
            raise AccessDenied(f"credential: {self._place} contains no USER:PASSWORD, but a store needs both")
        return user, password

    def authorization(self) -> str | None:
        """The value of the header of HTTP; None without a credential. Raises AccessDenied."""
        secret = self.read()
        if secret is None:
            return None
        if ":" in secret:
            return f"Basic {base64.b64encode(secret.encode()).decode()}"
        return f"Bearer {secret}"

    def _of_environment(self, name: str) -> str:
        if name not in os.environ:
            raise AccessDenied(
                f"credential: the environment variable {name} is not set in this process; on a cluster, set "
                f"spark.executorEnv.{name} and spark.yarn.appMasterEnv.{name}, or name a file"
            )
        return os.environ[name].strip()

    def _of_file(self, path: str) -> str:
        try:
            with Path(path).open("rb") as file:
                content = file.read(_MAX_BYTES + 1)
        except OSError as error:
            raise AccessDenied(f"credential: {path} cannot be read: {error.strerror}") from error
        if len(content) > _MAX_BYTES:
            raise AccessDenied(f"credential: {path} has more than {_MAX_BYTES} bytes")
        return content.decode(errors="replace").strip()
