"""Every snippet of README.md runs as it stands, one after the other, as a newcomer runs them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.broker_process import BUILD_COMMANDS, ROOT, BrokerProcess
from tests.support.patience import patient

README = (ROOT / "README.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
BIN = Path(sys.executable).parent


def run(command: list[str], environment: dict[str, str], folder: Path = ROOT) -> str:
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=patient(90)
    )
    assert done.returncode == 0, f"{command[-1]}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def as_here(text: str, broker: BrokerProcess) -> str:
    """A snippet with the addresses and the data of the test's broker."""
    text = text.replace("127.0.0.1:8000", f"127.0.0.1:{broker.port}").replace("61613", str(broker.stomp_port))
    return text.replace("data/journal", str(broker.data / "journal"))


@pytest.mark.slow
def test_snippets_run(broker: BrokerProcess, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MOM_")}
    environment.pop("DJANGO_SETTINGS_MODULE", None)
    environment |= {
        "HOME": str(tmp_path),
        "PATH": f"{BIN}:{environment['PATH']}",
        "MOM_DATA": str(broker.data),
        "MOM_STOMP_PORT": str(broker.stomp_port),
    }
    kept = tmp_path / "environment"
    said = ""
    for language, snippet in SNIPPETS:
        text = as_here(snippet, broker)
        if language == "sh" and text.startswith("make "):
            run(["make", "--dry-run", *text.split()[1:]], environment)
        elif language == "sh":
            # What one snippet exports, the next one has.
            said += run(["bash", "-euc", f"{text}\nenv -0 > {kept}"], environment)
            pairs = (pair.partition("=") for pair in kept.read_text().split("\0") if pair)
            environment = {name: value for name, _, value in pairs}
        elif language == "python":
            said += run([sys.executable, "-W", "error", "-c", text], environment)
        elif language == "js":
            node = [str(BUILD_COMMANDS / "node"), "--input-type=module", "-e", text]
            said += run(node, environment, ROOT / "frontend")
        else:
            pytest.fail(f"nothing runs {language} snippets")
    for who in ("curl", "Python", "stomp.py", "stompjs"):
        assert f"hello from {who}" in said
    assert "hello number 3" in said
    assert '"content_type":"text/plain"' in said


@pytest.mark.parametrize("page", ["README.md", "ARCHITECTURE.md", "CHANGELOG.md"])
def test_links_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
        assert (ROOT / target).exists(), f"{page}: {target}"
