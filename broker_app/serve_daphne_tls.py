"""TLS for Daphne, which speaks it by Twisted and pyOpenSSL: the same certificates, the same answers.

Imported by `serve_daphne` alone, once Twisted's reactor is installed.
"""

from __future__ import annotations

import logging
from typing import Any

from cryptography.hazmat.primitives.serialization import Encoding
from OpenSSL import SSL
from twisted.internet import reactor
from twisted.internet.interfaces import IOpenSSLServerConnectionCreator
from twisted.protocols import tls
from zope.interface import implementer

from broker_app.net.certificates import Certificates
from broker_app.net.door import HANDSHAKE, PLAIN_HTTP_ANSWER, RareLog

log = logging.getLogger(__name__)

# Twisted's types say less than is true.
_Transport: Any = tls.BufferingTLSTransport
_reactor: Any = reactor

_VERIFY = {
    "none": SSL.VERIFY_NONE,
    "optional": SSL.VERIFY_PEER,
    "required": SSL.VERIFY_PEER | SSL.VERIFY_FAIL_IF_NO_PEER_CERT,
}


def factory(certificates: Certificates, http_factory: Any) -> Any:
    """`http_factory` behind TLS."""
    contexts: Any = _Contexts(certificates)
    wrapped = tls.TLSMemoryBIOFactory(contexts, False, http_factory)
    patience_s, rare = certificates.config.connect_timeout, RareLog()
    known = {"patience_s": patience_s, "rare": rare}
    wrapped.protocol = type("TlsConnection", (_TlsConnection,), known)
    return wrapped


def names(transport: Any, certificates: Certificates) -> tuple[str, ...]:
    """The names in the certificate of the client of a TLS connection."""
    certificate = transport.getPeerCertificate()
    if certificate is None:
        return ()
    return certificates.names_in(certificate.to_cryptography().public_bytes(Encoding.DER))


@implementer(IOpenSSLServerConnectionCreator)
class _Contexts:
    """Makes connections of the newest certificate that both libraries could read."""

    def __init__(self, certificates: Certificates) -> None:
        self._certificates = certificates
        self._generation = certificates.generation
        self._context = self._made()

    def serverConnectionForTLS(self, protocol: Any) -> SSL.Connection:
        if self._generation != self._certificates.generation:
            self._generation = self._certificates.generation
            try:
                self._context = self._made()
            except (SSL.Error, OSError) as error:
                log.error("TLS of the web port goes on with the former certificate: %s", error)
        return SSL.Connection(self._context, None)

    def _made(self) -> SSL.Context:
        told = self._certificates
        context = SSL.Context(SSL.TLS_SERVER_METHOD)
        context.set_min_proto_version(SSL.TLS1_2_VERSION)
        context.set_session_id(b"mom")
        context.set_passwd_cb(lambda *_: told.password())
        context.use_certificate_chain_file(str(told.cert))
        context.use_privatekey_file(str(told.key))
        context.check_privatekey()
        if told.ca is not None:
            context.load_verify_locations(str(told.ca))
        context.set_verify(_VERIFY[told.config.tls_client_certificates])
        return context


class _TlsConnection(_Transport):  # type: ignore[misc]
    """A connection that bounds its handshake and tells who speaks plain HTTP."""

    patience_s: float
    rare: RareLog
    _begun = False

    def makeConnection(self, transport: Any) -> None:
        self._late = _reactor.callLater(self.patience_s, self._give_up)
        super().makeConnection(transport)

    def dataReceived(self, data: bytes) -> None:
        if not self._begun and data[:1] != HANDSHAKE:
            self.rare.info(
                "web port: no TLS with %s: the client does not speak TLS", self.transport.getPeer().host
            )
            self.transport.write(PLAIN_HTTP_ANSWER)
            self.transport.loseConnection()
            return
        self._begun = True
        super().dataReceived(data)
        if self._handshakeDone and self._late.active():
            self._late.cancel()

    def connectionLost(self, reason: Any) -> None:
        if self._late.active():
            self._late.cancel()
            self.rare.info(
                "web port: no TLS with %s: %s", self.transport.getPeer().host, reason.getErrorMessage()
            )
        super().connectionLost(reason)

    def _give_up(self) -> None:
        self._say("the client was silent")
        self.abortConnection()

    def _say(self, why: str) -> None:
        self.rare.info("web port: no TLS with %s: %s", self.transport.getPeer().host, why)
