"""The blocks of docs/client-library.md, run against a broker."""

from __future__ import annotations

import asyncio
import re
import textwrap

import mom_client
import mom_client.blocking
from tests.support.broker_process import ROOT, BrokerProcess

PAGE = (ROOT / "docs" / "client-library.md").read_text(encoding="utf-8")


async def test_each_block_runs_as_it_stands(broker: BrokerProcess) -> None:
    blocks = re.findall(r"^```python\n(.+?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 5
    for block in blocks:
        code = block.replace("127.0.0.1:61613", f"{broker.host}:{broker.stomp_port}")
        code = code.replace('"anna"', repr(broker.user)).replace('"secret of anna"', repr(broker.password))
        names = {"mom_client": mom_client, "asyncio": asyncio}
        exec(f"async def block():\n{textwrap.indent(code, '    ')}", names)
        await names["block"]()  # type: ignore[operator]


def test_each_error_of_the_library_is_in_the_table() -> None:
    named = set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE))
    errors = {name for name in mom_client.__all__ if isinstance(getattr(mom_client, name), type)}
    assert named == {
        name for name in errors if issubclass(getattr(mom_client, name), mom_client.ClientError)
    } - {"ClientError"}
