"""The parts of docs/protocol.md that follow from the code. `python -m tests.docs.generated` writes them."""

import json
from pathlib import Path

from broker_app.net.policy.destination_settings import SETTINGS, Setting
from broker_app.net.problems import PROBLEMS
from broker_app.net.stomp import scheduling_headers

PROTOCOL = Path(__file__).resolve().parents[2] / "docs" / "protocol.md"


def problems() -> str:
    """Every problem with its HTTP status."""
    rows = [f"| `{problem.name}` | {problem.status} | {problem.about} |" for problem in PROBLEMS.values()]
    return "\n".join(["| name | HTTP | meaning |", "|---|---|---|", *rows])


def unsupported() -> str:
    """Everything that is refused as `unsupported`, and where it was asked for."""
    rows = [f"| SEND `{name}` | {what} |" for name, what in scheduling_headers.REPEATED.items()]
    return "\n".join(["| asked for by | what it would be |", "|---|---|", *rows])


def settings() -> str:
    """All settings of destinations."""
    rows = [f"| `{s.name}` | {_values(s)} | {_default(s)} | {s.about} |" for s in SETTINGS.values()]
    return "\n".join(["| setting | values | default | meaning |", "|---|---|---|---|", *rows])


def _values(setting: Setting) -> str:
    if setting.kind is bool:
        return "`true`, `false`"
    if setting.kind is str:
        return ", ".join(f"`{choice}`" for choice in setting.choices) or "a name"
    if setting.most > 10**12:
        return f"from {setting.least:g}"
    return f"{setting.least:g} to {setting.most:,.15g}"


def _default(setting: Setting) -> str:
    value = setting.default
    if isinstance(value, float):
        return f"`{value:g}`"
    if isinstance(value, bool):
        return f"`{json.dumps(value)}`"
    return f"`{value}`" if value != "" else ""


PARTS = {"problems": problems, "unsupported": unsupported, "settings": settings}


def with_parts(text: str) -> str:
    """The page with its generated parts as they should be."""
    for name, part in PARTS.items():
        begin, end = (
            f"<!-- {name}: written by `python -m tests.docs.generated` -->\n",
            f"<!-- end of {name} -->",
        )
        before, _, rest = text.partition(begin)
        _, found, after = rest.partition(end)
        assert found, f"docs/protocol.md has no place for {name}"
        text = f"{before}{begin}\n{part()}\n\n{end}{after}"
    return text


if __name__ == "__main__":
    PROTOCOL.write_text(with_parts(PROTOCOL.read_text(encoding="utf-8")), encoding="utf-8")
