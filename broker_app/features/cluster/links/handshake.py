"""The handshake of a link: both brokers prove that they have the secret of the cluster. No I/O.

The broker that has connected proves it first, so that a stranger gets nothing that depends on the secret.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable

from broker_app.base.refused import Refused
from broker_app.features.cluster.links import frames as f

_NONCE_BYTES = 32
_WRONG = "the other broker has another secret; set MOM_CLUSTER_SECRET to the same value at all brokers"


class Handshake:
    """One side of it: `dials` is True at the broker that has connected. `send` takes frames to send."""

    def __init__(self, secret: str, *, dials: bool, send: Callable[[f.Frame], None]) -> None:
        self._secret = secret.encode()
        self._dials = dials
        self._send = send
        self._own = secrets.token_bytes(_NONCE_BYTES)
        self._theirs = b""
        #: whether the other broker has proven that it has the secret
        self.is_proven = False

    def begin(self) -> None:
        """Send the first frame, if that is for this side."""
        if self._dials:
            self._send(f.Hello(self._own))

    def receive(self, frame: f.Frame) -> bool:
        """Take a frame of the other side; returns whether it has proven itself now. Raises Refused."""
        match frame:
            case f.Hello(nonce) if not (self._dials or self._theirs) and len(nonce) == _NONCE_BYTES:
                self._theirs = nonce
                self._send(f.Challenge(self._own))
            case f.Challenge(nonce) if self._dials and not self._theirs and len(nonce) == _NONCE_BYTES:
                self._theirs = nonce
                self._send(f.Proof(self._digest(of_dialler=True)))
            case f.Proof(digest) if self._theirs and not self.is_proven:
                if not hmac.compare_digest(digest, self._digest(of_dialler=not self._dials)):
                    raise Refused("unauthorized", _WRONG)
                self.is_proven = True
                if not self._dials:
                    self._send(f.Proof(self._digest(of_dialler=False)))
            case _:
                raise Refused("protocol-error", "this port is for brokers of the cluster")
        return self.is_proven

    def _digest(self, *, of_dialler: bool) -> bytes:
        nonces = self._own + self._theirs if self._dials else self._theirs + self._own
        return hmac.digest(self._secret, (b"dialler" if of_dialler else b"acceptor") + nonces, "sha256")
