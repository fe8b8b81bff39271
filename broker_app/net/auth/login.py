"""Authentication of clients against the policy in memory.

Tokens are looked up by their digest. A password costs one Argon2 verification in a thread. The result is
cached under a keyed hash, so that a client that reconnects costs a microsecond. No password and no cookie is
kept.
"""

import asyncio
import hashlib
import hmac
import secrets
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from broker_app.net.auth.login_throttle import MAX_VERIFICATIONS, LoginThrottle, Slowed, VerificationSlots
from broker_app.net.policy.policy import Policy, UserFacts

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

# Verifications that may wait. More of them are an attack; honest clients have cached logins or tokens.
_WAITING = 256
_REMEMBERED = 10_000

_GOOD_S = 600.0
_BAD_S = 300.0
_COOKIE_S = 5.0
#: characters of the digest of a token that are its id
_ID_LENGTH = 32


@dataclass(frozen=True, slots=True)
class Identity:
    """An authenticated user, with the name of the token that was used instead of the password, if any.
    Connections opened from a browser `session` end with it; rights are the same in all sessions."""

    user: str
    token: str | None = None
    session: str | None = field(default=None, compare=False, repr=False)

    @property
    def is_of_console(self) -> bool:
        """True for a page of the console: it was logged in by a browser session."""
        return self.session is not None


ANONYMOUS = Identity("anonymous")


class _Token(NamedTuple):
    id: str
    #: seconds since the epoch
    expires: float | None


class Logins:
    """Authenticates clients. Belongs to one event loop.

    `verify(password, password_hash)` returns True if they match. `session_user(session_key)` returns the user
    of a browser session. Both may block and are run in threads. `dummy_hash` is a hash of the usual cost that
    matches no password.
    """

    def __init__(
        self,
        policy: Policy,
        verify: Callable[[str, str], bool],
        session_user: Callable[[str], str | None] = lambda key: None,
        *,
        session_cookie: str = "sessionid",
        dummy_hash: str = "",
        failure_delay_s: float = 1.0,
        throttle: LoginThrottle | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._policy = policy
        self._tokens = _by_name(policy)
        #: identities whose password or token the current policy has replaced
        self._replaced: frozenset[Identity] = frozenset()
        self._verify = verify
        self._session_user = session_user
        self._session_cookie = session_cookie
        self._dummy_hash = dummy_hash
        self._failure_delay_s = failure_delay_s
        self._throttle = throttle or LoginThrottle()
        self._slots = VerificationSlots(_WAITING)
        self._clock = clock
        self._key = secrets.token_bytes(32)
        self._good: dict[bytes, tuple[float, Identity]] = {}
        self._bad: dict[bytes, float] = {}
        self._cookies: dict[bytes, tuple[float, str | None]] = {}
        #: browser sessions that have ended
        self._ended: dict[str, None] = {}
        self._running: dict[bytes, asyncio.Task[bool | None]] = {}
        self._threads = asyncio.Semaphore(MAX_VERIFICATIONS)
        #: when tokens were used since the last `take_used`
        self._used: dict[bytes, float] = {}
        #: of programs that can read the data directory; opens the control plane alone
        self.local_secret = b""
        #: returns the identities that are connected now
        self.present: Callable[[], Iterable[Identity]] = tuple

    @property
    def policy(self) -> Policy:
        return self._policy

    def reload(self, policy: Policy) -> None:
        """Apply a new policy at once. Verified passwords stay cached for users whose password is unchanged;
        the other caches are cleared."""
        self._replaced = _replaced(self._policy, policy)
        self._policy = policy
        self._tokens = _by_name(policy)
        self._bad.clear()
        self._cookies.clear()

    def is_known(self, identity: Identity) -> bool:
        """Return True if a client that logged in under a former policy could do so under this one."""
        if identity == ANONYMOUS:
            return self._policy.anonymous
        if identity.user not in self._policy.users:
            return False
        return identity.token is None or (identity.user, identity.token) in self._tokens

    def is_valid(self, identity: Identity) -> bool:
        """Return True if a login is still valid: neither was its password or token replaced, nor has its
        browser session ended."""
        if identity.session is not None and identity.session in self._ended:
            return False
        return identity not in self._replaced and self.is_known(identity)

    def token_id(self, identity: Identity) -> str:
        """The id of the token that was used, which no later token of the same name has; empty without one."""
        known = self._tokens.get((identity.user, identity.token or ""))
        return known.id if known is not None else ""

    def restored(self, user: str, token: str | None, token_id: str) -> Identity | None:
        """The identity that was stored with what acts later; None if its user has gone, or its token was
        revoked, replaced or has expired."""
        identity = Identity(user, token)
        if not self.is_known(identity):
            return None
        if token is None:
            return identity
        known = self._tokens[user, token]
        expired = known.expires is not None and known.expires <= self._clock()
        return None if expired or known.id != token_id else identity

    def owner(self, user: str) -> Identity | None:
        """The identity under which acts what a user has configured, such as a callback; None if the user may
        not log in."""
        return Identity(user) if user in self._policy.users else None

    def end_session(self, session: str) -> None:
        """End a browser session; its key is never used again."""
        _remember(self._ended, session, None)
        self._cookies.pop(self._digest("", session), None)

    async def ended_sessions(self, identities: Iterable[Identity]) -> list[str]:
        """Return the browser sessions of the identities that expired or were ended by another process."""
        users = {one.session: one.user for one in identities if one.session is not None}
        return [
            session
            for session, user in users.items()
            if await asyncio.to_thread(self._session_user, session) != user
        ]

    def anonymous(self) -> Identity | None:
        """The identity of a client without credentials; None if the policy does not allow anonymous
        clients."""
        return ANONYMOUS if self._policy.anonymous else None

    def bearer(self, token: str) -> Identity | None:
        """The owner of a token; None for an unknown, revoked or expired one."""
        digest = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
        facts = self._policy.tokens.get(digest)
        if facts is None or (facts.expires is not None and facts.expires <= self._clock()):
            return None
        self.used(digest)
        return Identity(facts.user, facts.name) if facts.user in self._policy.users else None

    def used(self, digest: bytes) -> None:
        """Record that a token was used now."""
        self._used[digest] = self._clock()

    def take_used(self) -> dict[bytes, float]:
        """Return when tokens (by digest) were used since the last call, in seconds since the epoch. Tokens of
        open connections count as used now."""
        used, self._used = self._used, {}
        connected = {(one.user, one.token) for one in self.present() if one.token is not None}
        if connected:
            now = self._clock()
            for digest, facts in self._policy.tokens.items():
                if (facts.user, facts.name) in connected:
                    used[digest] = now
        return used

    def certified(self, names: Iterable[str]) -> Identity | None:
        """The user that has one of the names in an accepted client certificate; None if there is none."""
        return next((Identity(name) for name in names if name in self._policy.users), None)

    def cached(self, login: str, passcode: str) -> Identity | None:
        """The identity if it is known without waiting. None means unknown: use `authenticate` then."""
        if login == "token":
            return self.bearer(passcode)
        if not login and not passcode:
            return self.anonymous()
        facts = self._policy.users.get(login)
        if facts is None:
            return None
        digest = self._good_digest(facts, passcode)
        until, identity = self._good.get(digest, (0.0, None))
        left_s = until - self._clock()
        if identity is None or left_s <= 0:
            return None
        if left_s < _GOOD_S / 2:  # one in use is not verified again, which guesses at its address would delay
            self._good[digest] = self._clock() + _GOOD_S, identity
        return identity

    def knows_password(self, login: str, passcode: str) -> bool:
        """Return True if this is known without waiting to be the password of a user, and no token."""
        identity = self.cached(login, passcode)
        return identity is not None and identity == self.owner(login)

    async def authenticate(self, login: str, passcode: str, address: str = "") -> Identity | None:
        """Authenticate a client; returns None on failure, after a delay that slows down guessing.

        A login `token` has a token as its passcode; no login and no passcode is the anonymous user. Raises
        Slowed after too many wrong passwords.
        """
        identity = self.cached(login, passcode)
        if identity is not None:
            return identity
        identity = await self._by_password(login, passcode, address)
        if identity is None:
            await asyncio.sleep(self._failure_delay_s)
        return identity

    async def authenticate_cookie(self, header: str) -> Identity | None:
        """The user of the browser session in a Cookie header; None without a valid one.

        Use it only for requests of our own pages (`origin_check`): browsers send cookies from any page.
        """
        session = _cookie(header, self._session_cookie)
        if session is None:
            return None
        digest = self._digest("", session)
        expires, user = self._cookies.get(digest, (0.0, None))
        if expires <= self._clock():
            user = await asyncio.to_thread(self._session_user, session)
            if session in self._ended:  # meanwhile
                return None
            _remember(self._cookies, digest, (self._clock() + _COOKIE_S, user))
        return Identity(user, session=session) if user is not None and user in self._policy.users else None

    async def _by_password(self, login: str, passcode: str, address: str) -> Identity | None:
        if not login or login == "token":
            return None
        digest = self._digest(login, passcode)
        # Repeating the same wrong password is not guessing: a program that still has the old one is not
        # locked out for it.
        if self._bad.get(digest, 0.0) <= self._clock():
            self._throttle.admit(login, address)
        while True:
            if self._bad.get(digest, 0.0) > self._clock():
                return None
            policy = self._policy
            facts = policy.users.get(login)
            right = await self._verified(digest, passcode, facts, login, address)
            # A policy that was loaded meanwhile may have another password for this user, or no such user.
            if policy is self._policy:
                break
        if right is None:
            return None
        if not right or facts is None:
            _remember(self._bad, digest, self._clock() + _BAD_S)
            return None
        self._throttle.right(login, address)
        return self._cache_password(facts, passcode)

    def cache_password(self, login: str, passcode: str) -> None:
        """Cache a password that was verified elsewhere, if the policy has the user."""
        facts = self._policy.users.get(login)
        if facts is not None:
            self._cache_password(facts, passcode)

    def _cache_password(self, facts: UserFacts, passcode: str) -> Identity:
        identity = Identity(facts.name)
        good = self._good_digest(facts, passcode)
        _remember(self._good, good, (self._clock() + _GOOD_S, identity))
        return identity

    async def _verified(
        self, digest: bytes, passcode: str, facts: UserFacts | None, login: str, address: str
    ) -> bool | None:
        """Return whether they match, verified once for all concurrent logins; None if it was not verified."""
        password_hash = facts.password_hash if facts is not None else self._dummy_hash
        key = digest + password_hash.encode()
        task = self._running.get(key)
        if task is None:
            place = ExitStack()
            place.enter_context(self._slots.taken(address))
            verifying = self._verify_in_thread(passcode, password_hash, facts is not None, login, address)
            task = asyncio.create_task(verifying)
            self._running[key] = task
            task.add_done_callback(lambda _: self._running.pop(key))
            task.add_done_callback(lambda _: place.close())
        # Shielded: a client that disconnects must not cancel the verification of the others.
        return await asyncio.shield(task)

    async def _verify_in_thread(
        self, passcode: str, password_hash: str, known: bool, login: str, address: str
    ) -> bool | None:
        def verify() -> bool | None:
            try:
                with self._throttle.verifying(login, address):
                    right = self._verify(passcode, password_hash) and known
                    if not right:
                        self._throttle.wrong(login, address, passcode)
                    return right
            except Slowed:  # others that waited at the same time were wrong
                return None

        async with self._threads:
            return await asyncio.to_thread(verify)

    def _good_digest(self, facts: UserFacts, passcode: str) -> bytes:
        """The key under which a password that matches the user's hash in the policy is cached."""
        return self._digest(f"{len(facts.name)}:{facts.name}{facts.password_hash}", passcode)

    def _digest(self, login: str, secret: str) -> bytes:
        # The length keeps ("ab", "c") and ("a", "bc") apart. "surrogatepass" encodes every str.
        text = f"{len(login)}:{login}{secret}".encode("utf-8", "surrogatepass")
        return hmac.digest(self._key, text, "sha256")


def _by_name(policy: Policy) -> dict[tuple[str, str], _Token]:
    """The tokens by owner and name."""
    return {
        (facts.user, facts.name): _Token(digest.hex()[:_ID_LENGTH], facts.expires)
        for digest, facts in policy.tokens.items()
    }


def _replaced(former: Policy, policy: Policy) -> frozenset[Identity]:
    """The identities whose password, or token of the same name, is a different one in `policy`."""
    users = {
        Identity(name)
        for name, facts in policy.users.items()
        if name in former.users and former.users[name].password_hash != facts.password_hash
    }
    tokens = {Identity(facts.user, facts.name) for facts in former.tokens.values()}
    new = (facts for digest, facts in policy.tokens.items() if digest not in former.tokens)
    return frozenset(users | (tokens & {Identity(facts.user, facts.name) for facts in new}))


def _remember(cache: dict[_Key, _Value], key: _Key, value: _Value) -> None:
    """Store a value; a full cache evicts its oldest entry."""
    if key not in cache and len(cache) >= _REMEMBERED:
        del cache[next(iter(cache))]
    cache[key] = value


def _cookie(header: str, name: str) -> str | None:
    for part in header.split(";"):
        key, _, value = part.strip().partition("=")
        if key == name and value:
            return value.strip('"')
    return None
