"""The TLS context of a node, rebuilt when one of its certificate files changes.

A new context applies to new connections only. Files that cannot be used change nothing; the error is logged.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.x509.oid import ExtensionOID, NameOID

from broker_app.base.process import ownership
from broker_app.config import Config, ConfigError

log = logging.getLogger(__name__)

#: seconds between two checks of the files
CHECK_S = 2.0
_EXPIRY_WARNING = timedelta(days=14)

_VERIFY = {"none": ssl.CERT_NONE, "optional": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_ALTERNATIVE: dict[str, type[x509.GeneralName]] = {
    "dns": x509.DNSName,
    "email": x509.RFC822Name,
    "uri": x509.UniformResourceIdentifier,
}


class Certificates:
    """The TLS context of a node, and the certificates that it accepts. `generation` counts its contexts.

    Raises ConfigError when the settings contradict each other or the files cannot be used.
    """

    def __init__(self, config: Config) -> None:
        if config.tls_cert is None:
            raise ConfigError("TLS needs a certificate: set tls-cert")
        if config.tls_client_certificates != "none" and config.tls_ca is None:
            raise ConfigError(
                f"tls-client-certificates is {config.tls_client_certificates}, but tls-ca is not set: "
                "set it to the authorities that sign them"
            )
        self.config = config
        self.cert = config.tls_cert
        self.key = config.tls_key or config.tls_cert
        self.ca = config.tls_ca
        self.generation = 1
        self._check_requested = asyncio.Event()
        self._seen = self._fingerprints()
        self.context = self._load()

    def reload_now(self) -> None:
        """Check the files now."""
        self._seen = ()
        self._check_requested.set()

    async def follow(self, interval_s: float = CHECK_S) -> None:
        """Apply changes of the files; runs as long as the node."""
        while True:
            try:
                async with asyncio.timeout(interval_s):
                    await self._check_requested.wait()
            except TimeoutError:
                pass
            self._check_requested.clear()
            fingerprints = self._fingerprints()
            if fingerprints == self._seen:
                continue
            self._seen = fingerprints
            try:
                # In a thread: deriving a key from its password is slow on purpose.
                self.context = await asyncio.to_thread(self._load)
            except ConfigError as error:
                log.error(
                    "the changed TLS files are not used, the former certificate stays in use: %s", error
                )
            else:
                self.generation += 1

    def names_of(self, transport: asyncio.BaseTransport) -> tuple[str, ...]:
        """The user names in the client certificate of a connection; empty without a certificate."""
        tls = transport.get_extra_info("ssl_object")
        return self.names_in(tls.getpeercert(True)) if tls is not None else ()

    def names_in(self, certificate: bytes | None) -> tuple[str, ...]:
        """The names in a client certificate (DER), of the configured kind."""
        return () if certificate is None else names_in(certificate, self.config.tls_client_name)

    def password(self) -> bytes:
        """The password of the key. Raises ConfigError without one, since OpenSSL would prompt for it."""
        if self.config.tls_key_password is None:
            raise ConfigError(f"tls-key {self.key} has a password: set tls-key-password-file")
        return self.config.tls_key_password.encode()

    def _load(self) -> ssl.SSLContext:
        # PROTOCOL_TLS_SERVER: TLS 1.2 at least, and the ciphers that Python's maintainers consider safe.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        _read(self.cert, "tls-cert")
        _read(self.key, "tls-key")
        try:
            context.load_cert_chain(self.cert, self.key, self.password)
        except ssl.SSLError as error:
            raise ConfigError(self._explain(error)) from None
        if self.ca is not None:
            _read(self.ca, "tls-ca")
            try:
                context.load_verify_locations(self.ca)
            except ssl.SSLError as error:
                raise ConfigError(
                    f"tls-ca {self.ca} contains no certificates in PEM ({error.reason})"
                ) from None
        context.verify_mode = _VERIFY[self.config.tls_client_certificates]
        _log_expiry(self.cert)
        return context

    def _explain(self, error: ssl.SSLError) -> str:
        if error.reason == "KEY_VALUES_MISMATCH":
            return f"tls-key {self.key} is not the key of the certificate in tls-cert {self.cert}"
        if b"ENCRYPTED" in self.key.read_bytes():
            return f"tls-key-password does not decrypt tls-key {self.key}"
        if self.key == self.cert and b"PRIVATE KEY" not in self.key.read_bytes():
            return f"tls-cert {self.cert} has no private key in it: name the file of its key with tls-key"
        return f"tls-cert {self.cert} or tls-key {self.key} is not usable PEM ({error.reason or error})"

    def _fingerprints(self) -> tuple[tuple[int, int, int] | None, ...]:
        return tuple(_fingerprint(path) for path in (self.cert, self.key, self.ca) if path is not None)


def names_in(certificate: bytes, kind: str) -> tuple[str, ...]:
    """The names of one kind in a certificate (DER): "cn", "dns", "email" or "uri". Several common
    names count as none, since it is not defined which of them is meant."""
    parsed = x509.load_der_x509_certificate(certificate)
    if kind == "cn":
        common = [str(part.value) for part in parsed.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
        return tuple(common) if len(common) == 1 else ()
    try:
        extension = parsed.extensions.get_extension_for_oid(ExtensionOID.SUBJECT_ALTERNATIVE_NAME)
    except x509.ExtensionNotFound:
        return ()
    alternatives: Any = extension.value
    return tuple(str(name) for name in alternatives.get_values_for_type(_ALTERNATIVE[kind]))


def _read(path: Path, setting: str) -> None:
    """Check that a file is readable, and not written by others. Raises ConfigError with the name of the
    setting, unlike OpenSSL."""
    try:
        ownership.check(path)
        path.read_bytes()
    except ownership.ForeignPath as error:
        raise ConfigError(f"{setting}: {error}") from None
    except OSError as error:
        raise ConfigError(f"{setting}: cannot read {path}: {error.strerror}") from None


def _fingerprint(path: Path) -> tuple[int, int, int] | None:
    """A value that changes if the file, or the link to it, is written or replaced."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _log_expiry(cert: Path) -> None:
    try:
        parsed = x509.load_pem_x509_certificate(cert.read_bytes())
    except ValueError:
        return  # OpenSSL accepts it, and only that matters
    end = parsed.not_valid_after_utc
    left = end - datetime.now(UTC)
    log.info("TLS certificate %s (%s), valid until %s", cert, parsed.subject.rfc4514_string(), end.date())
    if left < timedelta(0):
        log.warning(
            "the TLS certificate %s expired on %s: clients refuse it; replace the file", cert, end.date()
        )
    elif left < _EXPIRY_WARNING:
        log.warning("the TLS certificate %s expires in %d days", cert, left.days)
