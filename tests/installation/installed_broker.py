"""A broker of the wheel, installed into an environment of its own, in a folder without a checkout."""

import subprocess
import sys
import sysconfig
from pathlib import Path

from tests.support.broker_process import ROOT, BrokerProcess


class Environment:
    """An environment that has the wheel; what the wheel requires it borrows from the one of the tests."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        self.python = folder / "bin" / "python"
        self.mom = folder / "bin" / "mom"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        pip: list[str | Path] = [
            ROOT / ".venv" / "bin" / "python",
            "-m",
            "pip",
            "--python",
            self.python,
            "install",
            "--quiet",
        ]
        subprocess.run([*pip, "--no-compile", "--no-deps", "--no-index", wheel], check=True)
        packages = Path(sysconfig.get_path("purelib", vars={"base": folder}))
        # The .pth files of a folder that is named here are not read: one of them names the checkout.
        (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib"))


class InstalledBroker(BrokerProcess):
    """`mom up` of an environment."""

    def __init__(self, environment: Environment, folder: Path) -> None:
        super().__init__(folder / "data", program=subprocess.Popen)
        self.command = (str(environment.mom), "up")
        self.folder = folder


def build_wheel(folder: Path) -> Path:
    """The wheel of this checkout, as `make wheel` builds it, in `folder`."""
    build: list[str | Path] = [
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "--target",
        "wheel",
        "--directory",
        folder,
    ]
    subprocess.run(build, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    (wheel,) = folder.glob("*.whl")
    return wheel
