import uuid
from datetime import UTC, datetime

import pytest

from broker_app.cli.base.failures import USAGE, Failure
from broker_app.cli.base.templates import Template


def test_number_of_the_message() -> None:
    assert Template(b'{"i": {{n}}, "again": {{ n }}}').fill(7) == b'{"i": 7, "again": 7}'


def test_uuids_differ() -> None:
    template = Template(b"{{uuid}}")
    one, other = template.fill(1), template.fill(2)
    assert one != other
    assert uuid.UUID(one.decode())


def test_now_is_the_time_in_utc() -> None:
    now = datetime.fromisoformat(Template(b"{{now}}").fill(1).decode())
    assert abs((datetime.now(UTC) - now).total_seconds()) < 5


def test_bytes_without_a_template_are_unchanged() -> None:
    body = b"\x00\xff {n} {{}} {{1}}"
    assert Template(body).fill(1) == body


def test_unknown_name_is_refused() -> None:
    with pytest.raises(Failure, match=r"no template \{\{number\}\}") as refused:
        Template(b"{{number}}")
    assert refused.value.code == USAGE


def test_plain_sends_braces() -> None:
    assert Template(b"{{number}}", plain=True).fill(1) == b"{{number}}"
