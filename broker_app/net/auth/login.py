"""Login: from credentials to an Identity, against the policy in memory.

Tokens are looked up. A password costs one Argon2 verification in a thread; its outcome is then
remembered under a keyed hash, so that a client that connects again costs a microsecond. No password
and no cookie is kept.
"""

import asyncio
import hashlib
import hmac
import secrets
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TypeVar

from broker_app.net.auth.login_throttle import LOOKS, Guesses, Places, Slowed
from broker_app.net.policy.policy import Policy, UserFacts

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

# Verifications that may wait. Beyond it we are under attack, and honest clients have cached logins or tokens.
_WAITING = 256
_REMEMBERED = 10_000

_GOOD_S = 600.0
_BAD_S = 300.0
_COOKIE_S = 5.0


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a client is: a user, and the name of the token that stood in for the password, if one did. What a
    browser `session` opened ends with it; rights are the same in all sessions."""

    user: str
    token: str | None = None
    session: str | None = field(default=None, compare=False, repr=False)


ANONYMOUS = Identity("anonymous")


class Logins:
    """Decides who a client is. Belongs to the loop it is used on.

    `verify(password, password_hash)` says whether they match and `session_user(session_key)` names
    the user of a browser session; both may block and are run in threads. `dummy_hash` is a hash of
    nobody's password, of the usual cost.
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
        guesses: Guesses | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._policy = policy
        self._tokens = _names(policy)
        #: who logged in by what the policy before had, and this one has no longer
        self._replaced: frozenset[Identity] = frozenset()
        self._verify = verify
        self._session_user = session_user
        self._session_cookie = session_cookie
        self._dummy_hash = dummy_hash
        self._failure_delay_s = failure_delay_s
        self._guesses = guesses or Guesses()
        self._places = Places(_WAITING)
        self._clock = clock
        self._key = secrets.token_bytes(32)
        self._good: dict[bytes, tuple[float, Identity]] = {}
        self._bad: dict[bytes, float] = {}
        self._cookies: dict[bytes, tuple[float, str | None]] = {}
        #: browser sessions that have ended
        self._ended: dict[str, None] = {}
        self._running: dict[bytes, asyncio.Task[bool | None]] = {}
        self._threads = asyncio.Semaphore(LOOKS)
        #: when tokens were used since somebody took note of it
        self._used: dict[bytes, float] = {}
        #: who is connected now
        self.present: Callable[[], Iterable[Identity]] = tuple

    @property
    def policy(self) -> Policy:
        return self._policy

    def reload(self, policy: Policy) -> None:
        """Takes over a new policy at once. Good passwords stay remembered for who has the same one still: a
        change of something else costs nobody a verification. All else is forgotten."""
        self._replaced = _replaced(self._policy, policy)
        self._policy = policy
        self._tokens = _names(policy)
        self._bad.clear()
        self._cookies.clear()

    def still_known(self, identity: Identity) -> bool:
        """Whether somebody who logged in under a former policy could do so under this one."""
        if identity == ANONYMOUS:
            return self._policy.anonymous
        if identity.user not in self._policy.users:
            return False
        return identity.token is None or (identity.user, identity.token) in self._tokens

    def goes_on(self, identity: Identity) -> bool:
        """Whether a login goes on: not where its password or token was replaced, or its browser session has
        ended."""
        if identity.session is not None and identity.session in self._ended:
            return False
        return identity not in self._replaced and self.still_known(identity)

    def end_session(self, session: str) -> None:
        """A browser session is over; its key does not come back."""
        _remember(self._ended, session, None)
        self._cookies.pop(self._digest("", session), None)

    async def sessions_over(self, identities: Iterable[Identity]) -> list[str]:
        """The browser sessions of these that are over: expired, or ended by another process."""
        users = {one.session: one.user for one in identities if one.session is not None}
        return [
            session
            for session, user in users.items()
            if await asyncio.to_thread(self._session_user, session) != user
        ]

    def anonymous(self) -> Identity | None:
        """The identity of a client that shows no credentials, where the policy has one."""
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
        """A token was shown just now."""
        self._used[digest] = self._clock()

    def take_used(self) -> dict[bytes, float]:
        """When tokens (by digest) were used, seconds of the epoch, since the last call; those of connections
        that are open are used now."""
        used, self._used = self._used, {}
        connected = {(one.user, one.token) for one in self.present() if one.token is not None}
        if connected:
            now = self._clock()
            for digest, facts in self._policy.tokens.items():
                if (facts.user, facts.name) in connected:
                    used[digest] = now
        return used

    def certified(self, names: Iterable[str]) -> Identity | None:
        """The user who is called like one of the names in an accepted client certificate, if there is one."""
        return next((Identity(name) for name in names if name in self._policy.users), None)

    def cached(self, login: str, passcode: str) -> Identity | None:
        """The answer when it is known without waiting. None says nothing: ask `authenticate` then."""
        if login == "token":
            return self.bearer(passcode)
        if not login and not passcode:
            return self.anonymous()
        facts = self._policy.users.get(login)
        known = self._good.get(self._good_digest(facts, passcode)) if facts is not None else None
        return known[1] if known is not None and known[0] > self._clock() else None

    async def authenticate(self, login: str, passcode: str, address: str = "") -> Identity | None:
        """Who comes with this login and passcode from an address; None refuses, and takes its time to say so.

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

        Trust it only for requests of our own pages (`net.origin`): browsers send cookies along from anywhere.
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
        # The same wrong password again teaches nobody anything: a program that was not told the new one is
        # not locked out for it.
        if self._bad.get(digest, 0.0) <= self._clock():
            self._guesses.admit(login, address)
        while True:
            if self._bad.get(digest, 0.0) > self._clock():
                return None
            policy = self._policy
            facts = policy.users.get(login)
            right = await self._verified(digest, passcode, facts, login, address)
            # A policy that came meanwhile may have another password for this user, or no such user.
            if policy is self._policy:
                break
        if right is None:
            return None
        if not right or facts is None:
            _remember(self._bad, digest, self._clock() + _BAD_S)
            return None
        self._guesses.right(login, address)
        return self._believe(facts, passcode)

    def believe(self, login: str, passcode: str) -> None:
        """Remembers a password that was found right elsewhere, if the policy knows the user."""
        facts = self._policy.users.get(login)
        if facts is not None:
            self._believe(facts, passcode)

    def _believe(self, facts: UserFacts, passcode: str) -> Identity:
        identity = Identity(facts.name)
        good = self._good_digest(facts, passcode)
        _remember(self._good, good, (self._clock() + _GOOD_S, identity))
        return identity

    async def _verified(
        self, digest: bytes, passcode: str, facts: UserFacts | None, login: str, address: str
    ) -> bool | None:
        """Whether they match, verified once for all who ask meanwhile; None when it was not looked at."""
        password_hash = facts.password_hash if facts is not None else self._dummy_hash
        key = digest + password_hash.encode()
        task = self._running.get(key)
        if task is None:
            place = ExitStack()
            place.enter_context(self._places.taken(address))
            verifying = self._verify_in_thread(passcode, password_hash, facts is not None, login, address)
            task = asyncio.create_task(verifying)
            self._running[key] = task
            task.add_done_callback(lambda _: self._running.pop(key))
            task.add_done_callback(lambda _: place.close())
        # Shielded: a client that goes away must not take the answer from the others.
        return await asyncio.shield(task)

    async def _verify_in_thread(
        self, passcode: str, password_hash: str, known: bool, login: str, address: str
    ) -> bool | None:
        def look() -> bool | None:
            try:
                with self._guesses.looking(login, address):
                    right = self._verify(passcode, password_hash) and known
                    if not right:
                        self._guesses.wrong(login, address, passcode)
                    return right
            except Slowed:  # others of those who waited together were wrong
                return None

        async with self._threads:
            return await asyncio.to_thread(look)

    def _good_digest(self, facts: UserFacts, passcode: str) -> bytes:
        """Under which it is remembered that this password fits what the policy says of the user."""
        return self._digest(f"{len(facts.name)}:{facts.name}{facts.password_hash}", passcode)

    def _digest(self, login: str, secret: str) -> bytes:
        # The length keeps ("ab", "c") and ("a", "bc") apart. "surrogatepass" takes any str there is.
        text = f"{len(login)}:{login}{secret}".encode("utf-8", "surrogatepass")
        return hmac.digest(self._key, text, "sha256")


def _names(policy: Policy) -> frozenset[tuple[str, str]]:
    """Owner and name of each token."""
    return frozenset((facts.user, facts.name) for facts in policy.tokens.values())


def _replaced(former: Policy, policy: Policy) -> frozenset[Identity]:
    """Those whose password is another one in `policy`, and whose token of the same name is."""
    users = {
        Identity(name)
        for name, facts in policy.users.items()
        if name in former.users and former.users[name].password_hash != facts.password_hash
    }
    tokens = {Identity(facts.user, facts.name) for facts in former.tokens.values()}
    new = (facts for digest, facts in policy.tokens.items() if digest not in former.tokens)
    return frozenset(users | (tokens & {Identity(facts.user, facts.name) for facts in new}))


def _remember(cache: dict[_Key, _Value], key: _Key, value: _Value) -> None:
    """Stores a value; a full cache gives up its oldest entry."""
    if key not in cache and len(cache) >= _REMEMBERED:
        del cache[next(iter(cache))]
    cache[key] = value


def _cookie(header: str, name: str) -> str | None:
    for part in header.split(";"):
        key, _, value = part.strip().partition("=")
        if key == name and value:
            return value.strip('"')
    return None
