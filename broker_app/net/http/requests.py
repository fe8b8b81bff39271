"""Requests: one HTTP request as endpoints see it; reading its body within bounds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable
from functools import cache
from io import BytesIO
from typing import Any, Protocol, TypeVar, get_args
from urllib.parse import parse_qsl, unquote

import msgspec

from broker_app.base import units
from broker_app.base.audit_actions import AuditAction
from broker_app.base.refused import Refused
from broker_app.base.shares import Shares
from broker_app.core.destination import Destination, parse
from broker_app.net import operator_audit
from broker_app.net.http.limits import RestLimits
from broker_app.net.http.refusals import RefusedWithHeaders, invalid, too_large, unknown
from broker_app.net.http.replies import JSON, Header
from broker_app.net.http.tracing import trace_of
from broker_app.net.operator_audit import Operator, OperatorActions
from broker_app.net.policy.access import Access, Client

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
_Struct = TypeVar("_Struct", bound=msgspec.Struct)
_MAX_PARAMETERS = 100
#: bytes of JSON that is decoded again for the units in it
_MOST_WITH_UNITS = 65_536
_NUMBERS = frozenset((int, float))


class Idempotency(Protocol):
    """Recognizes a request that repeats another, see `idempotency`."""

    async def check(self, body: bytes) -> None: ...

    def with_dedup_id(self, headers: list[Header]) -> list[Header]: ...

    def dedup_id(self, number: int) -> str: ...


class LineCutter:
    """Cuts bytes that come in any pieces into lines. Each byte is copied twice at most, and none again at the
    end of a line."""

    __slots__ = ("_begun", "size")

    def __init__(self) -> None:
        self._begun = BytesIO()
        #: bytes of the line that is not complete yet
        self.size = 0

    def cut(self, data: bytes) -> list[bytes]:
        """The lines that are complete with these bytes, without their ends."""
        first, end, others = data.partition(b"\n")
        self._begun.write(first)
        self.size += len(first)
        if not end:
            return []
        *whole, rest = others.split(b"\n")
        whole.insert(0, self.rest())
        self._begun = BytesIO()
        self.size = self._begun.write(rest)
        return whole

    def rest(self) -> bytes:
        """The line that is not complete."""
        return self._begun.getvalue()


class Departed(Exception):
    """The client disconnected before its request was complete."""


class Request:
    """One request. `name` is the name of the destination, the receipt or the id in the path, decoded; `owner`
    is the resource that it belongs to, such as a queue's bridge. The API sets them, `client` and
    `reply_headers`. Endpoints check permissions with `access`, and record operators' actions with `audit`."""

    __slots__ = (
        "_actions",
        "_limits",
        "_receive",
        "_uploads",
        "access",
        "changes",
        "client",
        "content_length",
        "content_type",
        "headers",
        "idempotency",
        "idempotency_key",
        "method",
        "name",
        "owner",
        "query_string",
        "reply_headers",
        "send",
    )

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        access: Access,
        limits: RestLimits,
        uploads: Shares,
        actions: OperatorActions,
    ) -> None:
        self.method: str = scope["method"]
        self.headers: list[Header] = scope["headers"]
        self.query_string: bytes = scope["query_string"]
        self._receive = receive
        self.send = send
        self.access = access
        self._limits = limits
        self._uploads = uploads
        self._actions = actions
        self.name = self.owner = ""
        #: whether its operation may change something
        self.changes = True
        self.client: Client
        #: headers that every reply to this request has
        self.reply_headers: list[Header] = []
        self.content_length = b""
        self.content_type = b""
        self.idempotency_key: bytes | None = None
        #: set if the request has a key and its endpoint accepts one
        self.idempotency: Idempotency | None = None
        for name, value in self.headers:
            if name == b"content-length":
                self.content_length = value
            elif name == b"content-type":
                self.content_type = value
            elif name == b"idempotency-key":
                self.idempotency_key = value

    @property
    def user(self) -> str:
        return self.client.identity.user

    @property
    def is_admin(self) -> bool:
        """True if the client is an administrator, or a monitor where nothing is changed; with a token only
        if it has the right `administer`."""
        identity = self.client.identity
        return self.access.is_admin(identity) if self.changes else self.access.sees_as_admin(identity)

    @property
    def media_type(self) -> bytes:
        """The content type without its parameters."""
        return self.content_type.partition(b";")[0].strip().lower()

    def header(self, name: bytes) -> bytes | None:
        for known, value in self.headers:
            if known == name:
                return value
        return None

    def permitted(self, right: str, address: str) -> Destination:
        """The destination of an address, to which the client has the right. Raises Refused."""
        destination = parse(address)
        self.access.check(self.client, right, destination)
        return destination

    def require_administrator(self, what: str) -> None:
        """Raise Refused unless an administrator asks. `what` is for them alone, such as "alerts are"."""
        if not self.is_admin:
            raise Refused("not-allowed", f"{what} for administrators", right="administer")

    # ------------------------------------------------------------------ the audit log

    def audit(self, action: AuditAction, key: str, **facts: Any) -> None:
        """Add an operation to the audit log."""
        self._actions.note(self._operator(), action, key, **facts)

    def audit_read(self, action: AuditAction, key: str, messages: int = 1) -> None:
        """Record in the audit log that bodies of messages of a destination were shown."""
        unmasked = self.access.unmasked(self.client, key)
        self._actions.note_reading(self._operator(), action, key, messages, unmasked)

    def _operator(self) -> Operator:
        by_session = self.header(b"authorization") is None and self.header(b"cookie") is not None
        identity, connection_info = self.client
        reason = unquote((self.header(b"mom-reason") or b"").decode("latin-1"))
        trace = trace_of(self.headers)
        by = operator_audit.CONSOLE if by_session else operator_audit.API
        return Operator(
            identity.user,
            identity.token,
            by,
            connection_info.address,
            reason[:1000],
            trace[1] if trace else "",
        )

    # ------------------------------------------------------------------ query

    def query(self, known: Collection[str] = (), prefix: str = "") -> dict[str, str]:
        """The query parameters, `known` ones and those that begin with a `prefix`. Refuses others, and
        repeated ones."""
        if not self.query_string:
            return {}
        if self.query_string.count(b"&") >= _MAX_PARAMETERS:
            raise invalid("query", f"the query has more than {_MAX_PARAMETERS} parameters")
        found: dict[str, str] = {}
        try:
            pairs = parse_qsl(self.query_string.decode("ascii"), keep_blank_values=True, errors="strict")
        except ValueError as error:
            raise invalid("query", "the query is not UTF-8 in percent encoding") from error
        for name, value in pairs:
            if name not in known and not (prefix and name.startswith(prefix)):
                raise unknown(f"query/{name[:100]}", name, known, "query parameter")
            if name in found:
                raise invalid(f"query/{name}", "is given twice")
            found[name] = value
        return found

    def choose_name(self, in_path: str, parameter: str | None) -> str:
        """The name in the address, or that in the query where `parameter` may hold it."""
        if parameter is None or (in_path and not self.query_string):
            return in_path
        in_query = dict(parse_qsl(self.query_string.decode("latin-1"))).get(parameter, "")
        if in_path and in_query:
            raise invalid(f"query/{parameter}", "the address holds a name already")
        if not in_path and not in_query:
            raise invalid(f"query/{parameter}", "is missing, and the address holds no name")
        return in_path or in_query

    # ------------------------------------------------------------------ body

    async def body(self, limit: int) -> bytes:
        """The whole body. Refused(too-large) as soon as more than `limit` bytes are announced or seen, and
        the end of a request that was answered before."""
        body = await self._whole_body(limit)
        if self.idempotency is not None:
            await self.idempotency.check(body)
        return body

    async def _whole_body(self, limit: int) -> bytes:
        self._check_announced(limit)
        try:
            async with asyncio.timeout(self._limits.upload_timeout_s) as deadline:
                event = await self._receive()
                if event["type"] == "http.disconnect":
                    raise Departed
                body: bytes = event.get("body", b"")
                if len(body) > limit:
                    raise too_large("the body", limit, len(body))
                return await self._rest(body, limit, deadline) if event.get("more_body") else body
        except TimeoutError:
            raise _late() from None

    async def _rest(self, first: bytes, limit: int, deadline: asyncio.Timeout) -> bytes:
        body, size = BytesIO(), len(first)
        body.write(first)
        uploads, user, admin = self._uploads, self.user, self.is_admin
        uploads.add(user, size)
        try:
            async for part in self._parts(deadline):
                uploads.take(user, admin=admin, count=len(part))
                body.write(part)
                size += len(part)
                if size > limit:
                    raise too_large("the body", limit, size)
        finally:
            uploads.add(user, -size)
        return body.getvalue()  # is no copy

    async def _parts(self, deadline: asyncio.Timeout) -> AsyncIterator[bytes]:
        more = True
        while more:
            event = await self._receive()
            if event["type"] == "http.disconnect":
                raise Departed
            part: bytes = event.get("body", b"")
            more = event.get("more_body", False)
            until = deadline.when()
            if until is not None:
                deadline.reschedule(until + len(part) / self._limits.upload_rate)
            yield part

    async def lines(self, limit: int) -> AsyncIterator[list[bytes]]:
        """The lines of the body, in runs as they arrive. Refused when one is longer than `limit`."""
        if self.idempotency is not None:
            detail = "a stream of lines takes no Idempotency-Key; give its lines dedup-ids, or send an array"
            raise Refused("unsupported", detail)
        cutter = LineCutter()
        more = True
        clock = asyncio.get_running_loop().time
        left = self._limits.upload_timeout_s
        while more:
            began = clock()
            try:
                async with asyncio.timeout(left):
                    event = await self._receive()
            except TimeoutError:
                raise _late() from None
            left += len(event.get("body", b"")) / self._limits.upload_rate - (clock() - began)
            if event["type"] == "http.disconnect":
                raise Departed
            more = event.get("more_body", False)
            whole = cutter.cut(event.get("body", b""))
            if cutter.size > limit:
                raise too_large("a line", limit, cutter.size)
            if whole:
                yield whole
        if cutter.size:
            yield [cutter.rest()]

    def _check_announced(self, limit: int) -> None:
        length = self.content_length
        if length.isdigit() and int(length[:15]) > limit:
            raise too_large("the body", limit, int(length[:15]))
        encoding = self.header(b"content-encoding")
        if encoding is not None and encoding.strip().lower() != b"identity":
            raise Refused(
                "unsupported-type", "a body in a content encoding is not understood; send it as it is"
            )

    async def json(self, kind: type[_Struct], *, required: bool = True) -> _Struct:
        """The body as JSON of the shape `kind`; an empty one is {} unless `required`."""
        self.check_json()
        body = await self.body(self._limits.max_request_bytes)
        if not body.strip():
            if required:
                raise invalid("", "a JSON object is needed as body")
            body = b"{}"
        return decode(body, kind)

    def check_json(self, *also: bytes) -> bytes:
        """The media type, when it is JSON or one of `also`; no type at all is taken for JSON."""
        media_type = self.media_type
        if not media_type:
            return JSON
        if media_type not in (JSON, *also):
            known = b" or ".join((JSON, *also)).decode()
            raise Refused("unsupported-type", f"the body is {media_type.decode('latin-1')!r}; send {known}")
        return media_type

    # ------------------------------------------------------------------ the client's end

    async def wait_departed(self) -> None:
        """Wait until the client disconnects. Only after the body was read."""
        while (await self._receive())["type"] != "http.disconnect":
            pass


def _late() -> Refused:
    return RefusedWithHeaders("timeout", "the body did not arrive in time", [(b"connection", b"close")])


def decode(body: bytes, kind: type[_Struct], pointer: str = "") -> _Struct:
    """JSON of the shape `kind`; times and sizes may be texts with a unit ("2s"). Raises Refused with the
    position of an error."""
    try:
        # msgspec leaves the inside of raw fields alone; all of it must be UTF-8 nonetheless.
        body.decode()
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        if len(body) <= _MOST_WITH_UNITS and (numbers := _in_numbers(body, kind, pointer)) is not None:
            return decode(numbers, kind, pointer)
        raise _shape(str(error), kind, pointer) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise invalid(pointer, f"this is no JSON: {error}") from None
    except RecursionError:
        raise invalid(pointer, "this JSON is nested too deeply") from None


def _in_numbers(body: bytes, kind: type[msgspec.Struct], pointer: str) -> bytes | None:
    """The same object with numbers for its texts of times and sizes, or None without such texts."""
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):  # behind the first error, which is reported
        return None
    numbers = _numbers(found, kind, pointer)
    return None if numbers == found else msgspec.json.encode(numbers)


def _numbers(found: Any, kind: type[msgspec.Struct], pointer: str) -> Any:
    """`found` with numbers in its fields of numbers, also in objects of its lists: no body is touched."""
    if not isinstance(found, dict):
        return found
    kinds = _kinds(kind)
    texts = {name: value for name, value in found.items() if _NUMBERS & kinds.get(name, frozenset())}
    numbers, wrong = units.in_numbers(texts)
    for name, sentence in wrong.items():
        raise invalid(f"{pointer}/{name}", sentence)
    for name, value in found.items():
        for part in kinds.get(name, ()):
            if isinstance(value, list) and isinstance(part, type) and issubclass(part, msgspec.Struct):
                numbers[name] = [
                    _numbers(item, part, f"{pointer}/{name}/{place}") for place, item in enumerate(value)
                ]
    return {**found, **numbers}


@cache
def _kinds(kind: type[msgspec.Struct]) -> dict[str, frozenset[Any]]:
    """The types of each field; to find them takes half a millisecond."""
    return {field.encode_name: _parts(field.type) for field in msgspec.structs.fields(kind)}


def _parts(annotation: Any) -> frozenset[Any]:
    """The types that an annotation such as `list[Item] | None` consists of."""
    parts = get_args(annotation)
    return frozenset().union(*map(_parts, parts)) if parts else frozenset((annotation,))


def elements(body: bytes, most: int) -> list[msgspec.Raw]:
    """The items of a JSON array, up to `most`, as they were written. Raises Refused."""
    try:
        body.decode()
        found = msgspec.json.decode(body, type=list[msgspec.Raw])
    except msgspec.ValidationError:
        raise invalid("", "a JSON array of messages is needed") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise invalid("", f"this is no JSON: {error}") from None
    except RecursionError:
        raise invalid("", "this JSON is nested too deeply") from None
    if len(found) > most:
        raise too_large("items of the batch", most, len(found))
    return found


def _shape(text: str, kind: type[msgspec.Struct], pointer: str) -> Refused:
    """msgspec's sentence ("Expected `int`, got `str` - at `$.max`") as a refusal with a JSON pointer."""
    sentence, _, path = text.partition(" - at `$")
    where = pointer + path.rstrip("`").replace("[...]", "").replace(".", "/").replace("[", "/").replace(
        "]", ""
    )
    start = "Object contains unknown field `"
    if sentence.startswith(start):
        name = sentence[len(start) : -1]
        known = kind.__struct_encode_fields__ if where == pointer else ()
        if known:
            return unknown(f"{where}/{name}", name, known, "field")
        return invalid(f"{where}/{name}", "there is no such field")
    start = "Object missing required field `"
    if sentence.startswith(start):
        return invalid(f"{where}/{sentence[len(start) : -1]}", "is missing")
    return invalid(where, sentence.replace("`", ""))


def boolean(query: dict[str, str], name: str, default: bool = False) -> bool:
    """A query parameter that is true or false."""
    value = query.get(name)
    if value is None:
        return default
    if value not in ("true", "false"):
        raise invalid(f"query/{name}", "must be true or false", value)
    return value == "true"


def whole_number(query: dict[str, str], name: str, default: int, least: int, most: int) -> int:
    """A query parameter that is a whole number within bounds."""
    value = query.get(name)
    if value is None:
        return default
    if not (value.isascii() and value.isdigit()) or len(value) > 15 or not least <= int(value) <= most:
        raise invalid(f"query/{name}", f"must be a whole number from {least} to {most}", value)
    return int(value)


def several(pointer: str, names: Iterable[str], known: Collection[str], kind: str) -> list[str]:
    """The names themselves when each is known and none comes twice, so that there are never more than known
    ones. Raises Refused."""
    found: dict[str, None] = {}
    for name in names:
        if name not in known:
            raise unknown(pointer, name, known, kind)
        if name in found:
            raise invalid(pointer, f"names {name} twice")
        found[name] = None
    return list(found)


def within(pointer: str, number: float, least: float, most: float) -> float:
    """`number` itself when it is within bounds."""
    if not least <= number <= most:
        raise invalid(pointer, f"must be between {least:g} and {most:g}", number)
    return number
