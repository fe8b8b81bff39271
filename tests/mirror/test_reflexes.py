"""Reflexes of brokers that mirror each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.mirrors import Mirrors, wait_until_serving

pytestmark = pytest.mark.process

LIBRARY = """
def arrives(message):
    return "bad" not in message.text
"""


def test_a_mirror_takes_over_with_the_reflexes_that_its_file_had_when_it_was_started(
    mirrors: Mirrors, tmp_path: Path
) -> None:
    (tmp_path / "verdicts.py").write_text(LIBRARY)
    file = tmp_path / "filters.cnf"
    file.write_text("F stock verdicts * arrives\n")
    options = "--reflex-path", str(tmp_path), "--reflex-file", str(file)
    main, mirror = mirrors.make(*options), mirrors.make(*options)
    main.start()
    mirror.start(standby=True)
    file.write_text("F\n")
    main.kill()
    wait_until_serving(mirror)
    messages = "/api/v1/queues/stock/messages"
    assert mirror.request("POST", messages, b"good").status == 201
    refused = mirror.request("POST", messages, b"bad")
    assert (refused.status, refused.json()["reflex"]) == (403, "filters.cnf:1"), refused.body
