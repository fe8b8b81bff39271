"""The file by which programs of a machine find their callback broker."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from django.contrib.auth.models import User

from broker_app.management.host_programs import HostPrograms
from broker_app.management.welcome import Welcome
from mom_client.callback_broker import read_file

pytestmark = pytest.mark.django_db


def welcome(port: int) -> Welcome:
    return cast(Welcome, SimpleNamespace(url="http://127.0.0.1:1", stomp_address=f"127.0.0.1:{port}"))


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, admin: User) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def test_the_file_goes_with_the_callback_broker_that_wrote_it() -> None:
    programs = HostPrograms()
    programs.ready(welcome(1))
    found = read_file()
    assert found is not None and found.stomp == "stomp://127.0.0.1:1"
    programs.stopped()
    assert read_file() is None


def test_a_callback_broker_leaves_the_file_of_another_one() -> None:
    first, second = HostPrograms(), HostPrograms()
    first.ready(welcome(1))
    second.ready(welcome(2))
    first.stopped()
    found = read_file()
    assert found is not None and found.stomp == "stomp://127.0.0.1:2"
    never_ready = HostPrograms()
    never_ready.stopped()
    assert read_file() == found
