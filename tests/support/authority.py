"""A certificate authority of the test's own, and the files it issues."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)


class Authority:
    """Issues certificates into `folder`. `ca_file` is what those trust who trust it."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self._ca = trustme.CA()
        self._folder = folder
        self.ca_file = folder / f"{name}.pem"
        self._ca.cert_pem.write_to_path(self.ca_file)

    def server(self, file: str = "server", *, password: str | None = None, days: int = 30) -> dict[str, Any]:
        """The settings of a node with a new certificate for this machine; files of that name are replaced."""
        leaf = self._ca.issue_cert(
            "127.0.0.1", "localhost", not_after=datetime.now(UTC) + timedelta(days=days)
        )
        cert, key = self._folder / f"{file}.pem", self._folder / f"{file}.key"
        cert.write_bytes(b"".join(blob.bytes() for blob in leaf.cert_chain_pems))
        key.write_bytes(_locked(leaf.private_key_pem.bytes(), password))
        return {"tls_cert": cert, "tls_key": key}

    def user(self, name: str, *identities: str) -> Path:
        """A file with the certificate and the key of a client whose common name is `name`."""
        leaf = self._ca.issue_cert(*identities or ["unused.example"], common_name=name)
        path = self._folder / f"user-{len(list(self._folder.iterdir()))}.pem"
        leaf.private_key_and_cert_chain_pem.write_to_path(path)
        return path

    def trusted(self, user: Path | None = None) -> ssl.SSLContext:
        """The context of a client that trusts this authority, and shows a certificate if one is given."""
        context = ssl.create_default_context(cafile=self.ca_file)
        if user is not None:
            context.load_cert_chain(user)
        return context


def _locked(key: bytes, password: str | None) -> bytes:
    if password is None:
        return key
    return load_pem_private_key(key, None).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password.encode())
    )
