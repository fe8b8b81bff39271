"""The client stands alone."""

import subprocess
import sys
from pathlib import Path

import pytest
import websockets

pytestmark = pytest.mark.process

CLIENT = Path(__file__).parents[2] / "mom_client"

ALONE = """
import sys
import mom_client, mom_client.blocking
known = set(sys.stdlib_module_names) | {"mom_client", "websockets", "__main__"}
print(sorted({name.partition(".")[0] for name in sys.modules} - known))
"""


def test_imports_nothing_but_websockets(tmp_path: Path) -> None:
    """In a directory with the client and websockets alone, as after `pip install mom-client`."""
    (tmp_path / "mom_client").symlink_to(CLIENT)
    (tmp_path / "websockets").symlink_to(Path(websockets.__file__).parent)
    command = [
        sys.executable,
        "-I",
        "-S",
        "-c",
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{ALONE}",
    ]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert answer.stdout == "[]\n", answer.stderr
