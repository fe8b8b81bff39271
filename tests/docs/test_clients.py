"""docs/clients.md has every option of a failover URI with its default, and its example is a URI."""

import dataclasses
import re

from mom_client.failover_options import FailoverOptions
from mom_client.failover_uri import parse
from tests.support.broker_process import ROOT

PAGE = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8")


def _written(default: object) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, (int, float)):
        return f"{default:g}" if default < 100 else f"{default:.0f}"
    return ""


def test_options() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ?(\S*) \| .+ \|$", PAGE, re.MULTILINE)
    assert rows == [(f.metadata["name"], _written(f.default)) for f in dataclasses.fields(FailoverOptions)]


def test_example() -> None:
    (url,) = re.findall(r'^url = "(.*)"$', PAGE, re.MULTILINE)
    assert parse(url).options.timeout == 3000
