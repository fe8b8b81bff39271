"""The TLS of a connection to a broker: certificates to trust, and the one that the client shows."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from pyspark_mom.credentials import Credential
from pyspark_mom.errors import InvalidOption
from pyspark_mom.option_types import Option, OptionTable, credential, label


class Tls(NamedTuple):
    """Files of TLS. `key_credential` names the environment variable or the file with the password of the
    key."""

    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    key_credential: str | None = None

    def context(self) -> ssl.SSLContext:
        """The context of a connection. Raises InvalidOption, and AccessDenied for the password."""
        context = ssl.create_default_context()
        if self.ca_file is not None:
            try:
                context.load_verify_locations(self.ca_file)
            except OSError as error:
                raise InvalidOption(f"caFile: {self.ca_file} has no certificates: {error}") from error
        if self.cert_file is not None:
            try:
                context.load_cert_chain(self.cert_file, self.key_file, self._password)
            except OSError as error:
                raise InvalidOption(
                    f"certFile: the certificate {self.cert_file} and its key {self.key_file or 'there'} "
                    f"cannot be used: {error}; both are PEM, and belong together"
                ) from error
        return context

    def _password(self) -> str:
        """The password of the key. OpenSSL would ask for it at the terminal."""
        found = Credential(self.key_credential).read()
        if found is None:
            raise InvalidOption(
                f"keyCredential: the key {self.key_file or self.cert_file} has a password; name the "
                "environment variable, or the file, that contains it"
            )
        return found


def check(values: Mapping[str, Any]) -> None:
    """Refuse a key without its certificate."""
    for field, option in (("key_file", "keyFile"), ("key_credential", "keyCredential")):
        if field in values and "cert_file" not in values:
            raise InvalidOption(f"{option}: is the key of a certificate; name that with certFile")


#: options of any query
TLS_OPTIONS: Final[OptionTable] = {
    "caFile": Option(
        "ca_file", label, "", "certificate of an authority to trust besides those of the system (PEM)"
    ),
    "certFile": Option(
        "cert_file",
        label,
        "",
        "certificate that is shown to brokers which want one of their clients, and its key, unless `keyFile` "
        "has it (PEM); on all machines under the same path",
    ),
    "keyFile": Option("key_file", label, "", "key of the certificate"),
    "keyCredential": Option(
        "key_credential",
        credential,
        "",
        "environment variable or file that contains the password of the key, never the password itself",
    ),
}
