"""The harness with which authors test their libraries."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker_app.reflex.api import Answer, Message, hookimpl, refuse
from broker_app.reflex.declaration import CHANNEL, Declaration
from broker_app.reflex.testing import Harness


class Desk:
    """A library with hooks: it notes their calls."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    @hookimpl
    def mom_functions(self) -> Any:
        return {"answer": self.answer, "accept": self.accept}

    @hookimpl
    def mom_started(self, library: str) -> None:
        self.calls.append(f"{library} started")

    @hookimpl
    def mom_stopping(self) -> None:
        self.calls.append("stopping")

    def answer(self, message: Message, answer: Answer) -> Any:
        answer.headers["of"] = message.text
        if message.text == "refuse":
            return refuse("closed")
        if message.text == "fail":
            raise KeyError("desk")
        return None if message.text == "nothing" else "A:" + message.text

    def accept(self, message: Message) -> bool:
        return True


def test_hooks_are_called_once_for_a_library() -> None:
    desk = Desk()
    lines = "S desk lib * answer\nF > lib * accept\n"
    with Harness(lines, libraries={"lib": desk}) as chain:
        assert desk.calls == ["lib started"]
        assert chain.arrive("desk", b"1").accepted
    assert desk.calls == ["lib started", "stopping"]
    chain.close()
    assert desk.calls == ["lib started", "stopping"], "it was stopped already"


def test_hooks_of_a_library_that_no_declaration_needs_are_not_called() -> None:
    desk = Desk()
    Harness("F > mom * audit", libraries={"lib": desk}).close()
    assert desk.calls == []


def test_a_library_of_a_directory_is_loaded_once(tmp_path: Path) -> None:
    (tmp_path / "of_harness.py").write_text(
        "seen = []\ndef note(message):\n    seen.append(1)\ndef few(message):\n    return len(seen) < 2\n"
    )
    chain = Harness("F > of_harness * note\nF > of_harness * few", directory=str(tmp_path))
    assert [chain.arrive("a").accepted for _ in range(2)] == [True, False]


def test_a_start_that_fails_is_raised_in_the_test() -> None:
    @hookimpl
    def mom_started(library: str) -> None:
        raise RuntimeError("no database")

    with pytest.raises(RuntimeError, match="no database"):
        Harness("F > lib * f", libraries={"lib": SimpleNamespace(mom_started=mom_started)})


@pytest.mark.parametrize("body", [b"refuse", b"fail", b"nothing"])
def test_an_answer_is_that_of_its_own_message(body: bytes) -> None:
    chain = Harness("S desk lib * answer", libraries={"lib": Desk()})
    assert chain.serve("desk", b"hi").answer == b"A:hi"
    found = chain.serve("desk", body)
    assert found.accepted == (body == b"nothing")
    assert found.answer is None
    assert found.answer_headers == ({"of": "nothing"} if found.accepted else {})


def test_the_deletion_of_copies_needs_a_broker() -> None:
    found = Harness("S RE_deleteCopy mom * delete_copies").serve("RE_deleteCopy", b"1")
    failure = "delete_copies works on the queues of a broker, so it can be tested with a broker only"
    assert [one.failure for one in found.asked] == [failure]


def test_a_handler_of_message_channels_is_called_with_parts_and_options() -> None:
    def answer(channel: Any, parts: list[bytes], need_response: bool, options: Any) -> None:
        channel.send_msg([options["prefix"].encode(), *parts])
        raise KeyError("after the answer")

    desk = Declaration("desk", CHANNEL, "lib", "answer", options={"prefix": "re"})
    library = SimpleNamespace(__name__=answer.__module__, answer=answer)
    handled = Harness([desk], libraries={"lib": library}).handle(b"a", b"b", multiple=True)
    assert handled.channel.answer == (b"reab", "2,1,1")
    assert isinstance(handled.error, KeyError)
