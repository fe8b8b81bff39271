"""docs/clients.md has every option of its URIs with its default, and its examples are URIs."""

import dataclasses
import re

from mom_client.connection.failover_options import FailoverOptions
from mom_client.connection.failover_uri import parse
from mom_client.connection.imq_uri import ImqOptions
from mom_client.connection.imq_uri import parse as parse_imq
from tests.support.broker_process import ROOT

PAGE = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8")


def _written(default: object) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, (int, float)):
        return f"{default:g}" if default < 100 else f"{default:.0f}"
    return default if isinstance(default, str) else ""


def test_options() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ?(\S*) \| .+ \|$", PAGE, re.MULTILINE)
    fields = (*dataclasses.fields(FailoverOptions), *dataclasses.fields(ImqOptions))
    assert rows == [(f.metadata["name"], _written(f.default)) for f in fields]


def test_example() -> None:
    failover, imq = re.findall(r'^url = "(.*)"$', PAGE, re.MULTILINE)
    assert parse(failover).options.timeout == 3000
    rules = parse_imq(imq).rules
    assert rules is not None
    assert (rules.reconnect, rules.pace.attempts) == (True, 3)
