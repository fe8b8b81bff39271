"""The process of a library.

It is started as `python -P -m broker_app.reflex.libraries.worker SOCKET LIBRARY MEMORY DIRECTORY`.

It loads the library, carries out calls one by one, and ends with the broker. It has no other connection to
the broker than the socket: no secrets, no files that are open.
"""

from __future__ import annotations

import contextlib
import gc
import os
import resource
import signal
import socket
import sys
import time
import traceback
from functools import lru_cache
from typing import Any

from broker_app.base.process.parent_process import end_with_parent
from broker_app.core import header_block
from broker_app.reflex.api import Answer, Message, Registration, Verdict, service_of
from broker_app.reflex.channel_call import ChannelCall, Handled, ResponseChannel
from broker_app.reflex.functions import Bound, Library
from broker_app.reflex.libraries import library_loader, wire
from mom_client.channel_parts import parts_of

MAX_FILES = 256
#: further processes and threads of the user, where the system counts them (not for root)
MAX_TASKS = 64
_RECEIVE_BYTES = 256 * 1024
#: characters of an error that the broker logs
_ERROR_CHARACTERS = 2_000


def main(arguments: list[str]) -> None:
    """Serve until the broker ends the connection."""
    number, name, memory, directory = arguments
    _end_with_broker()
    _limit(int(memory))
    with socket.socket(fileno=int(number)) as connection:
        try:
            library = library_loader.load(name, directory)
            library.started()
        except Exception as error:
            connection.sendall(wire.frame(wire.Hello([], _text(error))))
            traceback.print_exception(error)
            return
        gc.freeze()
        connection.sendall(wire.frame(wire.Hello(sorted(library.functions))))
        _serve(connection, library)
    library.stopping()


def _end_with_broker() -> None:
    """Have the kernel end this process when the broker ends, whatever the library does."""
    end_with_parent(signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the broker decides when it ends


def _limit(memory: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (MAX_FILES, MAX_FILES))
    with contextlib.suppress(OSError, ValueError):
        tasks = _tasks_of_user() + MAX_TASKS
        resource.setrlimit(resource.RLIMIT_NPROC, (tasks, tasks))


def _tasks_of_user() -> int:
    """The number of threads of all processes of this user, as far as the system shows them."""
    count, user = 0, os.getuid()
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if entry.stat().st_uid == user:
                    count += len(os.listdir(f"/proc/{entry.name}/task"))
    return count


def _serve(connection: socket.socket, library: Library) -> None:
    frames = wire.Frames(sys.maxsize)
    functions: dict[int, tuple[wire.FunctionSpec, Bound | Exception]] = {}
    trace_backs = TraceBacks()
    while data := connection.recv(_RECEIVE_BYTES):
        for content in frames.feed(data):
            received = wire.decode_to_process(content)
            if isinstance(received, wire.Functions):
                for spec in received.functions:
                    functions[spec.number] = spec, _bind(library, spec)
                continue
            for call in received.calls:
                connection.sendall(wire.frame(_result(call, *functions[call.function], trace_backs)))


def _bind(library: Library, spec: wire.FunctionSpec) -> Bound | Exception:
    try:
        return library.bind(spec.kind, spec.name)
    except (LookupError, TypeError) as error:
        return error


class TraceBacks:
    """Prints trace-backs, each whole once: of the next one from the same place, the error alone."""

    #: places that are remembered
    MOST = 1_000

    def __init__(self) -> None:
        self._known: set[tuple[object, ...]] = set()

    def print(self, error: Exception) -> None:
        """Print the trace-back of an error, or the error."""
        places = ((frame.f_code, line) for frame, line in traceback.walk_tb(error.__traceback__))
        kind = (type(error), *places)
        if kind in self._known:
            print(f"{_text(error)} (its trace-back was logged before)".replace("\n", " "), file=sys.stderr)
            return
        if len(self._known) >= self.MOST:
            self._known.clear()
        self._known.add(kind)
        traceback.print_exception(error)


def _result(
    call: wire.Call, spec: wire.FunctionSpec, function: Bound | Exception, trace_backs: TraceBacks
) -> wire.CallResult:
    if isinstance(function, Exception):
        return wire.CallResult(call.id, 0, False, _text(function))
    began = time.perf_counter_ns()
    try:
        returned = function(_subject(call), spec.options)
        micros = (time.perf_counter_ns() - began) // 1_000
        if isinstance(returned, Handled):
            if returned.error is not None:
                trace_backs.print(returned.error)
            return _of_handler(call.id, micros, returned)
        if isinstance(returned, Answer):
            headers = {str(name): str(value) for name, value in returned.headers.items()}
            return wire.CallResult(call.id, micros, answer=returned.body, answer_headers=headers)
        return _of_verdict(call.id, micros, returned)
    except Exception as error:
        trace_backs.print(error)
        return wire.CallResult(call.id, (time.perf_counter_ns() - began) // 1_000, False, _text(error))


def _of_verdict(id: int, micros: int, verdict: Verdict) -> wire.CallResult:
    for one in verdict.messages:
        if not isinstance(one.body, bytes) or not isinstance(one.destination, str):
            raise TypeError(f"{one!r:.80}: the destination must be a text, the body bytes")
    return wire.CallResult(
        id,
        micros,
        verdict.accepted,
        reason=str(verdict.reason),
        headers=_texts(verdict.headers),
        messages=[
            wire.NewMessageFacts(
                one.destination, one.body, {str(name): str(value) for name, value in one.headers.items()}
            )
            for one in verdict.messages
        ],
        marks=[str(mark) for mark in verdict.marks],
        retry_s=float(verdict.retry_s),
        facts={str(name): str(value) for name, value in verdict.facts.items()},
    )


def _of_handler(id: int, micros: int, handled: Handled) -> wire.CallResult:
    channel, error = handled
    answer = channel.answer
    return wire.CallResult(
        id,
        micros,
        error=_text(error) if error is not None else "",
        reason="buffer-small" if channel.is_too_small else "",
        messages=[wire.NewMessageFacts(channel.site, sent.body, sent.headers) for sent in channel.messages],
        answer=answer.body if answer is not None else None,
        answer_headers=answer.headers if answer is not None else {},
    )


def _texts(headers: Any) -> dict[str, str | None]:
    return {str(name): None if value is None else str(value) for name, value in headers.items()}


def _subject(call: wire.Call) -> Message | Registration | ChannelCall:
    if call.channel is not None:
        of = call.channel
        channel = ResponseChannel(of.site, need_response=of.need_response, multiple=of.multiple)
        return ChannelCall(channel, parts_of(call.body, of.lengths), of.need_response)
    facts = call.registration
    if facts is not None:
        return Registration(
            facts.name,
            facts.user,
            facts.machine,
            facts.type,
            tuple(facts.events),
            facts.connection,
            facts.transport,
        )
    return Message(
        service_of(call.address),
        call.address,
        call.type,
        dict(_headers(call.block)),
        call.body,
        call.user,
        call.message_id,
        call.attempt,
    )


@lru_cache(maxsize=1_024)
def _headers(block: bytes) -> dict[str, str]:
    return header_block.headers(block)


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:_ERROR_CHARACTERS]


if __name__ == "__main__":
    main(sys.argv[1:])
