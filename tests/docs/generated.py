"""The parts of pages in docs/ that follow from the code.

`python -m tests.docs.generated` writes them, and the tables of the console.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from broker_app import config
from broker_app.base import states
from broker_app.base.audit_actions import ACTIONS, CHANGES
from broker_app.base.events import DECLARED, OF_CAUSE, Event
from broker_app.base.system_topics import TOPICS, SystemTopic
from broker_app.features.cluster.configuration import activemq_names
from broker_app.features.cluster.configuration.foreign_name import ForeignName
from broker_app.features.cluster.configuration.imq_names import NAMES
from broker_app.net.policy.destination_settings import GLASSFISH, SETTINGS, Setting
from broker_app.net.problems import PROBLEMS
from broker_app.net.stomp import header_names
from broker_app.net.stomp.header_names import HeaderName
from broker_app.telemetry.alerts.conditions import CONDITIONS
from broker_app.telemetry.metrics.families import AGGREGATED, DETAILED, Family
from pyspark_mom import options, sink_options
from pyspark_mom.option_types import OptionTable
from tests.docs import console_tables, soak_counts
from tests.docs.design import contrast

_DOCS = Path(__file__).resolve().parents[2] / "docs"
PROTOCOL, METRICS, PIPELINE = (_DOCS / f"{name}.md" for name in ("protocol", "metrics", "pipeline"))
CONFIGURATION, DESIGN = _DOCS / "configuration.md", _DOCS / "design" / "README.md"
CLUSTERS, SOAK = _DOCS / "clusters.md", _DOCS / "soak.md"


def problems() -> str:
    """Every problem with its HTTP status."""
    rows = [f"| `{problem.name}` | {problem.status} | {problem.about} |" for problem in PROBLEMS.values()]
    return "\n".join(["| name | HTTP | meaning |", "|---|---|---|", *rows])


def unsupported() -> str:
    """Everything that is refused as `unsupported`, and where it was asked for."""
    refused = (row for row in header_names.TABLE if row.use == header_names.REFUSED)
    rows = [
        f"| {row.frame} `{row.name}{f':{row.example}' if row.harmless else ''}` | {row.about} |"
        for row in refused
    ]
    return "\n".join(["| asked for by | what it would be |", "|---|---|", *rows])


def state_table() -> str:
    """Every state of everything that has some."""
    rows = [
        f"| {subject if at == 0 else ''} | `{name}` | {state.label} | {state.meaning} |"
        for subject, family in states.FAMILIES.values()
        for at, (name, state) in enumerate(family.items())
    ]
    return "\n".join(["| of a | state | label | meaning |", "|---|---|---|---|", *rows])


def event_table() -> str:
    """Every event of the event log."""
    rows = [
        f"| {one.kind} | `{one.name}` | {_code(one)} | {one.sentence.replace('{detail}', '')} "
        f"| {', '.join(f'`{name}`' for name in one.fields)} |"
        for one in DECLARED
    ]
    return "\n".join(["| kind | event | code | detail | facts |", "|---|---|---|---|---|", *rows])


def audit_table() -> str:
    """Every action of the audit log."""
    changes = ", ".join(f"`{name}`" for name in CHANGES)
    rows = [
        f"| {one.kind} | `{one.name}` | {', '.join(f'`{name}`' for name in one.fields)} |" for one in ACTIONS
    ]
    first = f"| each type of resource | {changes} | its fields before and after |"
    return "\n".join(["| kind | action | facts |", "|---|---|---|", first, *rows])


def _code(event: Event) -> str:
    if event.code == OF_CAUSE:
        return "of the cause"
    return f"`{event.code}`" if event.code else ""


def topic_table() -> str:
    """Every topic of the broker itself."""
    rows = [
        f"| `{one.address}` | {one.about}{_types(one)} | {one.snapshot} | {one.readers.about} |"
        for one in TOPICS
    ]
    first = "| topic | published | first message with `snapshot:true` | for |"
    return "\n".join([first, "|---|---|---|---|", *rows])


def _types(topic: SystemTopic) -> str:
    """The types of its CloudEvents where they are several."""
    return f": {', '.join(f'`{name}`' for name in topic.types)}" if topic.events else ""


def header_table() -> str:
    """Every header of other brokers that is known, and what it is here."""
    rows = [
        f"| {row.frame} | `{row.name}` | {row.brokers} | {_use(row)} |"
        for row in sorted(header_names.TABLE, key=lambda row: header_names.FRAMES.index(row.frame))
    ]
    return "\n".join(["| frame | header | of | here |", "|---|---|---|---|", *rows])


def _use(row: HeaderName) -> str:
    words = {
        header_names.DONE: "done",
        header_names.ALIAS: f"`{row.own}`",
        header_names.HINT: "ignored",
        header_names.REFUSED: f"`unsupported`{f' if it is `{row.example}`' if row.harmless else ''}",
    }
    return f"{words[row.use]}: {row.about}" if row.about else words[row.use]


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


def glassfish() -> str:
    """All properties of destinations in GlassFish MQ."""
    rows = [
        f"| `{name}` | {f'`{alias.setting}`' if alias.setting else alias.instead} |"
        for name, alias in GLASSFISH.items()
    ]
    return "\n".join(["| in GlassFish MQ | here |", "|---|---|", *rows])


def _metrics(groups: Mapping[str, Sequence[Family]]) -> str:
    """All families of metrics."""
    rows = [
        f"| `{family.name}` | {family.kind} | {_labels(family)} | {family.help} |"
        for group in groups.values()
        for family in group
    ]
    return "\n".join(["| metric | type | labels | meaning |", "|---|---|---|---|", *rows])


def _labels(family: Family) -> str:
    return ", ".join(f"`{label}`" for label in family.labels)


def _options(table: OptionTable) -> str:
    """All options of a query in Spark."""
    rows = [f"| `{name}` | {option.default} | {option.meaning} |" for name, option in table.items()]
    return "\n".join(["| option | default | meaning |", "|---|---|---|", *rows])


def node_settings() -> str:
    """All settings of a broker."""
    rows = [
        f"| `{one.name}` | {_form(one)} | {_node_default(one)} | {'yes' if one.rule.reloadable else ''} "
        f"| {one.rule.about} |"
        for one in config.settings()
    ]
    return "\n".join(["| setting | values | default | live | meaning |", "|---|---|---|---|---|", *rows])


def cluster_settings() -> str:
    """The settings of a cluster."""
    rows = [
        f"| `{one.name}` | `{one.option}` | {_node_default(one)} | {one.rule.about} |"
        for one in config.settings()
        if "cluster" in one.name or one.name in _OF_CLUSTERS
    ]
    return "\n".join(["| setting | option | default | meaning |", "|---|---|---|---|", *rows])


def alert_conditions() -> str:
    """All conditions of alerts."""
    rows = [
        f"| `{name}` | {one.about} | {one.threshold:g} {one.unit} | {one.for_s:g} | {one.severity} |"
        for name, one in CONDITIONS.items()
    ]
    return "\n".join(
        [
            "| rule and condition | fires when | `threshold` | `for_s` | `severity` |",
            "|---|---|---|---|---|",
            *rows,
        ]
    )


def imq_names() -> str:
    """All names of GlassFish MQ for settings of brokers and clusters."""
    rows = [f"| `{row.name}` | {_meaning(row)} | {_imq_note(row)} |" for row in NAMES.values()]
    return "\n".join(["| in GlassFish MQ | here | |", "|---|---|---|", *rows])


def names_of_activemq() -> str:
    """All names of ActiveMQ for settings of clusters."""
    rows = [
        f"| `{row.name}` | {_meaning(row)} | {_activemq_note(row)} |" for row in activemq_names.NAMES.values()
    ]
    return "\n".join(["| in ActiveMQ | here | |", "|---|---|---|", *rows])


#: settings of clusters that have another name
_OF_CLUSTERS = {row.setting for row in NAMES.values() if row.must_be_equal} | {
    row.setting for row in activemq_names.NAMES.values() if row.setting
}
_COMPARED = [row for row in NAMES.values() if row.must_be_equal]


def _imq_note(row: ForeignName) -> str:
    if not row.is_central:
        return "of one broker: not in the central file"
    return "must be equal at all brokers" if row.must_be_equal else ""


def _activemq_note(row: ForeignName) -> str:
    if row.setting:
        return ""
    return "accepted, and changes nothing" if row.accepted or row.number else "refused"


def _meaning(row: ForeignName) -> str:
    if row.setting:
        return f"`{row.setting}`"
    return f"always `{row.accepted[0]}`: {row.about}" if len(row.accepted) == 1 else row.about


_FORMS = {"bool": "`true`, `false`", "str": "text", "Path": "path", "tuple": "texts"}


def _form(setting: config.Setting) -> str:
    rule = setting.rule
    if rule.choices:
        return ", ".join(f"`{choice}`" for choice in rule.choices)
    if rule.unit == "bytes":
        return "size"
    text = _FORMS.get(setting.type, rule.unit or "number")
    return f"{text}, secret" if rule.secret else text


def _node_default(setting: config.Setting) -> str:
    value = setting.default
    if value in (None, "", ()):
        return ""
    if setting.rule.unit == "bytes" and value:
        return f"`{value // config.MIB}MiB`" if value >= config.MIB else f"`{value // config.KIB}KiB`"
    if isinstance(value, bool):
        return f"`{json.dumps(value)}`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


#: the parts of each page, by name
PAGES: dict[Path, dict[str, Callable[[], str]]] = {
    PROTOCOL: {
        "problems": problems,
        "unsupported": unsupported,
        "settings": settings,
        "glassfish": glassfish,
        "headers": header_table,
        "states": state_table,
        "events": event_table,
        "system-topics": topic_table,
        "alerts": alert_conditions,
    },
    PIPELINE: {
        "source": partial(_options, options.NAMES),
        "sink": partial(_options, sink_options.NAMES),
    },
    CONFIGURATION: {"broker-settings": node_settings, "audit-actions": audit_table},
    CLUSTERS: {
        "cluster-settings": cluster_settings,
        "imq-names": imq_names,
        "activemq-names": names_of_activemq,
    },
    SOAK: {"soak": soak_counts.table},
    METRICS: {"node": partial(_metrics, AGGREGATED), "detailed": partial(_metrics, DETAILED)},
    DESIGN: {"contrast": contrast.table},
}


def with_parts(page: Path) -> str:
    """The text of a page with its generated parts as they should be."""
    text = page.read_text(encoding="utf-8")
    for name, part in PAGES[page].items():
        begin, end = (
            f"<!-- {name}: written by `python -m tests.docs.generated` -->\n",
            f"<!-- end of {name} -->",
        )
        before, _, rest = text.partition(begin)
        _, found, after = rest.partition(end)
        assert found, f"{page.name} has no place for {name}"
        text = f"{before}{begin}\n{part()}\n\n{end}{after}"
    return text


if __name__ == "__main__":
    for file, text in console_tables.files().items():
        file.write_text(text, encoding="utf-8")
    for page in PAGES:
        page.write_text(with_parts(page), encoding="utf-8")
