"""Every command of docs/api.md runs as it stands, one after the other."""

import os
import re
import subprocess

from tests.support.broker_process import ROOT, BrokerProcess

PAGE = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_commands_run(broker: BrokerProcess) -> None:
    made = broker.request("POST", "/api/v1/tokens", json_body={"name": "reader"})
    script = "\n".join(SNIPPETS).replace("127.0.0.1:8000", f"127.0.0.1:{broker.port}")
    environment = {**os.environ, "MOM_TOKEN": made.json()["token"]}
    done = subprocess.run(
        ["bash", "-euc", script], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert '"name":"orders"' in done.stdout and '"effect":"deny"' in done.stdout
    assert done.stdout.count('"name":"rule-1","effect"') == 2
    assert '"impact"' in done.stdout and "mom_" in done.stdout
