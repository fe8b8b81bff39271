"""A little OpenID Connect provider on loopback: discovery, authorization code with PKCE, signed ID tokens."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

CLIENT_ID, CLIENT_SECRET = "console", "of the console"


class IdentityProvider:
    """Each visitor is the user of `claims`, without being asked. `ID token`s are signed by `key`;
    the published one stays the first."""

    def __init__(self) -> None:
        self.key = self._published = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.claims: dict[str, Any] = {"sub": "4711", "preferred_username": "ann"}
        self.userinfo: dict[str, Any] | None = None
        #: further claims of the ID token alone, in the place of the usual ones
        self.id_token: dict[str, Any] = {}
        self.denies = False
        self.codes: dict[str, str] = {}
        provider = self

        class Answers(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.answer(self, "")

            def do_POST(self) -> None:
                provider.answer(self, self.rfile.read(int(self.headers["content-length"])).decode())

            def log_message(self, *_: Any) -> None:
                """Not read by any test."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        self.issuer = f"http://127.0.0.1:{self._server.server_port}/realm"
        Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def settings(self) -> dict[str, str]:
        """The variables of a node whose users log in here."""
        return {
            "MOM_OIDC_ISSUER": self.issuer,
            "MOM_OIDC_CLIENT_ID": CLIENT_ID,
            "MOM_OIDC_CLIENT_SECRET": CLIENT_SECRET,
            "MOM_OIDC_NAME": "Acme login",
        }

    def answer(self, request: BaseHTTPRequestHandler, body: str) -> None:
        parts = urlsplit(request.path)
        query = {name: values[0] for name, values in parse_qs(parts.query or body).items()}
        match parts.path.removeprefix("/realm"):
            case "/.well-known/openid-configuration":
                self._reply(request, self._discovery())
            case "/authorize":
                self._authorize(request, query)
            case "/token":
                self._token(request, query)
            case "/userinfo":
                self._reply(request, self.claims if self.userinfo is None else self.userinfo)
            case "/keys":
                jwk = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self._published.public_key()))
                self._reply(request, {"keys": [{**jwk, "kid": "1", "alg": "RS256", "use": "sig"}]})
            case _:
                self._reply(request, {"error": "not found"}, 404)

    def _discovery(self) -> dict[str, Any]:
        places = {
            "authorization_endpoint": "authorize",
            "token_endpoint": "token",
            "userinfo_endpoint": "userinfo",
            "jwks_uri": "keys",
        }
        return {
            "issuer": self.issuer,
            **{name: f"{self.issuer}/{place}" for name, place in places.items()},
            "token_endpoint_auth_methods_supported": ["client_secret_post"],
        }

    def _authorize(self, request: BaseHTTPRequestHandler, query: dict[str, str]) -> None:
        assert query["client_id"] == CLIENT_ID
        assert query["response_type"] == "code" and "openid" in query["scope"].split()
        assert query["code_challenge_method"] == "S256"
        code = secrets.token_urlsafe(16)
        self.codes[code] = query["code_challenge"]
        back = {"error": "access_denied"} if self.denies else {"code": code}
        request.send_response(302)
        request.send_header(
            "location", f"{query['redirect_uri']}?{urlencode({**back, 'state': query['state']})}"
        )
        request.end_headers()

    def _token(self, request: BaseHTTPRequestHandler, query: dict[str, str]) -> None:
        verifier = hashlib.sha256(query["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(verifier).decode().rstrip("=")
        right = (query["client_id"], query["client_secret"]) == (CLIENT_ID, CLIENT_SECRET)
        if not right or self.codes.pop(query["code"], None) != challenge:
            self._reply(request, {"error": "invalid_grant"}, 400)
            return
        now = int(time.time())
        usual = {"iss": self.issuer, "aud": CLIENT_ID, "iat": now, "exp": now + 60}
        signed = jwt.encode(
            {**self.claims, **usual, **self.id_token}, self.key, "RS256", headers={"kid": "1"}
        )
        self._reply(request, {"access_token": "a", "token_type": "Bearer", "id_token": signed})

    def _reply(self, request: BaseHTTPRequestHandler, body: dict[str, Any], status: int = 200) -> None:
        data = json.dumps(body).encode()
        request.send_response(status)
        request.send_header("content-type", "application/json")
        request.send_header("content-length", str(len(data)))
        request.end_headers()
        request.wfile.write(data)
