"""The REST client of the command line. Uses only the standard library, which loads fast."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO
from urllib.parse import quote, urlencode

from broker_app.base import suggestions
from broker_app.base.reply_types import Facts
from broker_app.cli.base.contexts import BrokerTarget
from broker_app.cli.base.failures import FAILED, NOT_FOUND, UNREACHABLE, Failure, of_problem, unreachable
from broker_app.cli.destinations import queue_name

_PREFIX = "/api/v1"
_CHUNK = 64 * 1024
_MISSING_QUEUE = re.compile(r"there is no queue '?(?:/queue/)?([^\s';]+)")


class Rest:
    """Requests to one broker. Every problem in a reply is raised as a Failure."""

    def __init__(self, target: BrokerTarget, timeout_s: float = 30.0) -> None:
        self._target = target
        self._timeout_s = timeout_s
        self._tls = target.tls()

    def get(self, path: str, **query: Any) -> Any:
        return self.call("GET", path, query=query)

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Facts | None = None,
        wait_s: float = 0.0,
    ) -> Any:
        """Return the decoded reply, None when it is empty. `wait_s` is added to the timeout."""
        data = json.dumps(body).encode() if body is not None else None
        with self._open(method, path, data, "application/json", query or {}, wait_s) as reply:
            content = reply.read()
        return json.loads(content) if content else None

    def exchange(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: dict[str, str] | None = None,
        *,
        query: Facts | None = None,
    ) -> tuple[Any, str]:
        """Return the decoded reply and its ETag. `headers` can be conditions such as If-Match."""
        data = json.dumps(body).encode() if body is not None else None
        with self._open(method, path, data, "application/json", query or {}, 0.0, headers) as reply:
            content = reply.read()
            return json.loads(content) if content else None, reply.headers.get("etag", "")

    def send(
        self,
        path: str,
        content: bytes,
        content_type: str,
        headers: dict[str, str] | None = None,
        *,
        query: Facts | None = None,
    ) -> tuple[Any, str]:
        """Return the decoded reply to a POST of encoded content, and its ETag."""
        with self._open("POST", path, content, content_type, query or {}, 0.0, headers) as reply:
            return json.loads(reply.read()), reply.headers.get("etag", "")

    def download(self, path: str, into: BinaryIO, accept: str = "*/*", *, query: Facts | None = None) -> None:
        """Write the body of a reply to a file. Raises Failure also when it ends early."""
        with self._open("GET", path, None, "", query or {}, 0.0, {"accept": accept}) as reply:
            while chunk := reply.read(_CHUNK):
                into.write(chunk)
            if reply.length:  # a reply that is read a part at a time ends early without an error
                raise Failure(
                    UNREACHABLE,
                    f"the reply ended {reply.length:,} bytes early, so the output is incomplete",
                    where=self._target.url,
                    fix="run the command again; `mom doctor` shows whether the broker answers",
                )

    def events(self, path: str, silent_s: float, **query: Any) -> Iterator[bytes]:
        """Yield the data of server-sent events, empty for a comment, until the stream ends. Raises Failure
        also when nothing comes for so many seconds."""
        accept = {"accept": "text/event-stream"}
        wait_s = silent_s - self._timeout_s
        with self._open("GET", path, None, "", query, wait_s, accept) as reply:
            problem = False
            for line in reply:
                if line.startswith(b"event:"):
                    problem = line.strip() == b"event: problem"
                elif line.startswith(b":"):
                    yield b""
                elif line.startswith(b"data:") and problem:
                    facts = json.loads(line[5:])
                    raise of_problem(str(facts["type"]).rpartition("/")[2], str(facts["detail"]), path)
                elif line.startswith(b"data:"):
                    yield line[5:].strip()

    def upload(self, path: str, file: BinaryIO, content_type: str) -> Any:
        """Return the decoded reply to a POST of a file of any size."""
        with self._open("POST", path, iter(lambda: file.read(_CHUNK), b""), content_type, {}, 0.0) as reply:
            return json.loads(reply.read())

    @contextlib.contextmanager
    def _open(
        self,
        method: str,
        path: str,
        data: bytes | Iterator[bytes] | None,
        content_type: str,
        query: Facts,
        wait_s: float,
        conditions: dict[str, str] | None = None,
    ) -> Iterator[http.client.HTTPResponse]:
        address = f"{self._target.web}{_PREFIX}{path}"
        if query:
            address += "?" + urlencode({name: value for name, value in query.items() if value is not None})
        headers = self._headers() | (conditions or {})
        if data is not None:
            headers["content-type"] = content_type
        request = urllib.request.Request(address, data, headers, method=method)
        try:
            timeout_s = self._timeout_s + wait_s
            with urllib.request.urlopen(request, timeout=timeout_s, context=self._tls) as reply:
                yield reply
        except urllib.error.HTTPError as error:
            with error:
                failure = _refusal(error, address)
            raise self._with_suggestion(failure) from None
        except (OSError, http.client.HTTPException) as error:
            raise unreachable(self._target.url, *_reason(error)) from None

    def pages(
        self,
        path: str,
        limit: int | None = None,
        on_page: Callable[[Facts], object] = dict,
        **query: Any,
    ) -> Iterator[Facts]:
        """Yield the items of a list, page by page, up to `limit`; `on_page` is called with each page."""
        left = limit
        after = None
        while left is None or left > 0:
            page = self.get(path, after=after, limit=min(left or 500, 500), **query)
            on_page(page)
            yield from page["items"]
            after = page["next"]
            if after is None:
                return
            if left is not None:
                left -= len(page["items"])

    def _with_suggestion(self, failure: Failure) -> Failure:
        """The failure; that of a queue that does not exist with the name that was probably meant, of those
        that the user may see."""
        missing = _MISSING_QUEUE.match(failure.what) if failure.code == NOT_FOUND else None
        if missing is not None:
            with contextlib.suppress(Failure):
                names = [str(row["name"]) for row in self.pages("/queues", limit=suggestions.MOST)]
                failure.what += suggestions.suggestion(missing[1], names)
        return failure

    def _headers(self) -> dict[str, str]:
        login, passcode = self._target.login, self._target.passcode
        if login == "token":
            return {"authorization": f"Bearer {passcode}"}
        if not login:
            return {}
        return {"authorization": "Basic " + base64.b64encode(f"{login}:{passcode}".encode()).decode()}


def queue_path(name: str, *rest: str) -> str:
    """The path of a queue, or of a resource below it."""
    return "/".join(["/queues", quote(queue_name(name), safe="/"), *rest])


def destination_path(address: str, *rest: str) -> str:
    """The path of a resource of the queue or topic with a STOMP `address`."""
    if not address.startswith("/topic/"):
        return queue_path(address, *rest)
    return "/".join(["/topics", quote(address.removeprefix("/topic/"), safe="/"), *rest])


def _refusal(error: urllib.error.HTTPError, address: str) -> Failure:
    try:
        problem = json.loads(error.read())
        name = str(problem["type"]).rpartition("/")[2]
        return of_problem(name, str(problem["detail"]), address)
    except (ValueError, KeyError, TypeError):
        return Failure(FAILED, f"the answer is HTTP {error.code} {error.reason}", where=address,
                       fix="is this the address of a MOM broker?")  # fmt: skip


def _reason(error: Exception) -> tuple[str, str]:
    """The reason why the broker does not answer, and the fix where it is known."""
    reason = getattr(error, "reason", error)
    if isinstance(reason, ssl.SSLCertVerificationError):
        why = f"its certificate is not trusted: {reason.verify_message}"
        return why, "name the file of the authority with --ca-file or MOM_CA_FILE"
    if isinstance(reason, ssl.SSLError):
        if reason.reason == "WRONG_VERSION_NUMBER":
            return "it does not speak TLS at this port", "write its address with http://"
        return f"TLS failed: {(reason.reason or str(reason)).lower().replace('_', ' ')}", ""
    return str(getattr(reason, "strerror", None) or reason or type(error).__name__), ""
