"""docs/protocol.md agrees with the code."""

from broker_app.config import settings
from tests.docs import generated

PAGE = generated.PROTOCOL.read_text(encoding="utf-8")


def test_generated_parts_are_current() -> None:
    assert generated.with_parts(PAGE) == PAGE, "run `python -m tests.docs.generated`"


def test_every_setting_it_names_exists() -> None:
    known = {setting.variable for setting in settings()}
    named = {
        word.strip("`;,.|)") for word in PAGE.replace("`", " ").split() if word.strip("`(").startswith("MOM_")
    }
    assert named
    assert named <= known
