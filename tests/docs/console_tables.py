"""The tables of the broker that the console needs, too, as TypeScript.

`python -m tests.docs.generated` writes them. What has only a type costs a page nothing, and a table of texts
that lacks a name, or has one too many, is an error of tsc. A page may be older than the broker that it shows:
what is looked up for a name that the page does not know is the name itself.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

from broker_app.base import states
from broker_app.core import message
from broker_app.core.inspection import browse
from broker_app.core.storage import dead_letter_headers
from broker_app.features.bridge import connection_test
from broker_app.features.bridge.remote import Remote
from broker_app.features.jobs import plan
from broker_app.net.http.limits import RestLimits
from broker_app.net.policy.policy import ADMINISTER
from broker_app.net.rest.messages.envelopes import MAX_EXPIRES_S
from broker_app.net.stomp import header_names
from broker_app.net.stomp.scheduling_headers import MAX_DELAY_S
from broker_app.rules.event import METHODS, PROTOCOLS
from broker_app.rules.facts import FACTS
from broker_app.telemetry import (
    component_health,
    destination_stats_feed,
    health,
    system_topics,
)
from broker_app.telemetry.alerts import condition
from broker_app.telemetry.alerts.conditions import CONDITIONS

FOLDER = Path(__file__).resolve().parents[2] / "frontend" / "src" / "generated"

_TEST = (
    connection_test.DNS,
    connection_test.TCP,
    connection_test.TLS,
    connection_test.WEBSOCKET,
    connection_test.LOGIN,
    connection_test.SYNC,
    connection_test.TARGET,
)
#: families of states that the browser draws
_SIGNS = (
    "Health", "DestinationState", "SubscriptionState", "ConnectionState", "AlertState", "Severity",
    "ClientEventName", "FlowState", "OriginState", "ServiceActivity", "PendingState", "JobState",
)  # fmt: skip


def files() -> dict[Path, str]:
    """The text of each module. `tables` is a part of every page, so the others have what few pages need."""
    modules = {
        "tables": (*_types(), *_of_destinations()),
        "messages": tuple(_of_messages()),
        "configuration": tuple(_of_configuration()),
        "alerts": tuple(_of_alerts()),
        **{f"signs/{_dashed(name)}": tuple(_of_signs(name, states.FAMILIES[name][1])) for name in _SIGNS},
    }
    head = "/** Written by `python -m tests.docs.generated`. */"
    return {FOLDER / f"{name}.ts": "\n\n".join((head, *parts)) + "\n" for name, parts in modules.items()}


def _types() -> Iterable[str]:
    for name in _SIGNS:
        subject, family = states.FAMILIES[name]
        yield _union(name, family, f"The state of one {subject}.")
    yield _union("ConnectionTestStep", _TEST, "A step of the connection test of a bridge.")
    yield _union("JobOperation", (*plan.PLANNED, plan.IMPORT, plan.UNDO), "The operation of a job.")
    yield _union("PlannedOperation", plan.PLANNED, "Operations with a dry run.")
    yield _union("AlertCondition", CONDITIONS, "The condition of an alert.")
    yield _union("ComponentKind", component_health.TABLE, "The kind of a component whose health is known.")
    yield _union("Right", (*METHODS, ADMINISTER), "A right on a destination.")
    yield _union("Fact", FACTS, "What conditions of rules may ask for: `/event/<fact>`.")
    yield _union("Method", METHODS.values(), "The values of the fact `method`.")


def _of_destinations() -> Iterable[str]:
    yield _constant(
        "NEEDS_ATTENTION",
        sorted(health.NEEDS_ATTENTION, key=health.RANK.__getitem__),
        "The states of destinations that an operator should look at.",
    )
    yield _constant(
        "STATS_COLUMNS",
        destination_stats_feed.COLUMNS,
        "The values of a row of `$mom.destinations`, after the address.",
    )
    yield _constant("WILDCARDS", system_topics.WILDCARDS, "Levels of names, as topics about them spell them.")
    yield _constant("MAX_PAGE", RestLimits().max_page, "The most items of a page.")


def _of_messages() -> Iterable[str]:
    states = (browse.READY, browse.UNSETTLED, browse.DELAYED)
    yield _constant("MESSAGE_STATES", states, "The states of messages that can be searched for.")
    yield _constant(
        "DEAD_LETTER_HEADERS",
        dead_letter_headers.FACTS,
        "The headers that a dead letter gets, and loses when it is retried.",
    )
    yield _constant(
        "BROKER_HEADERS",
        sorted({row.own for row in header_names.rows(header_names.SEND, header_names.ALIAS)}),
        "The headers of a SEND that ask the broker for something.",
    )
    yield _constant("DEFAULT_PRIORITY", message.DEFAULT_PRIORITY, "The priority of a message without one.")
    yield _constant("MAX_DELAY_S", MAX_DELAY_S, "The longest delay of a message.")
    yield _constant("MAX_EXPIRES_S", int(MAX_EXPIRES_S), "The longest time to live of a message.")
    yield _constant("MAX_JOB_MESSAGES", plan.MAX_MESSAGES, "The most messages of a job.")
    yield _constant("MAX_JOB_RATE", plan.FASTEST, "The most messages per second of a job.")


def _of_configuration() -> Iterable[str]:
    yield _constant("PROTOCOLS", PROTOCOLS, "The values of the fact `protocol` of rules.")
    yield _constant(
        "BRIDGE_NUMBERS",
        [one.name for one in fields(Remote) if one.type in ("int", "float")],
        "The settings of a bridge that are numbers.",
    )


def _of_alerts() -> Iterable[str]:
    yield 'import { gettext } from "../gettext.ts";\nimport type { AlertCondition } from "./tables.ts";'
    yield (
        "/** What was found, and what if it failed, with words in braces. */\n"
        "export interface AlertSentences {\n  found: string;\n  failed?: string;\n}"
    )
    rows = [f"  {json.dumps(name)}: {{ {_sentences(one)} }},\n" for name, one in CONDITIONS.items()]
    yield (
        "/** The sentences of alerts in the language of the page. */\n"
        f"export const ALERT_SENTENCES: Record<AlertCondition, AlertSentences> = {{\n{''.join(rows)}}};"
    )


def _of_signs(name: str, family: states.Family) -> Iterable[str]:
    yield (
        'import { gettext } from "../../gettext.ts";\nimport type { Sign } from "../../view/sign.ts";\n'
        f'import type {{ {name} }} from "../tables.ts";'
    )
    rows = [
        f"  {_key(key)}: {{ word: gettext({json.dumps(one.label)}), tone: {json.dumps(one.sign.tone)}, "
        f"icon: {json.dumps(one.sign.icon)} }},\n"
        for key, one in family.items()
    ]
    constant = _dashed(name).replace("-", "_").upper()
    yield (
        f"/** The sign of each `{name}`. */\n"
        f"export const {constant}: Record<{name}, Sign> = {{\n{''.join(rows)}}};"
    )


def _dashed(name: str) -> str:
    """`DestinationState` as `destination-state`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower()


def _key(name: str) -> str:
    return name if name.isidentifier() else json.dumps(name)


def _sentences(one: condition.Condition) -> str:
    texts = {"found": one.sentence, "failed": one.failed}
    return ", ".join(f"{key}: gettext({json.dumps(text)})" for key, text in texts.items() if text)


def _union(name: str, values: Iterable[str], about: str) -> str:
    return f"/** {about} */\nexport type {name} = {' | '.join(map(json.dumps, values))};"


def _constant(name: str, value: Any, about: str) -> str:
    written = json.dumps(value, ensure_ascii=False)
    literal = "" if isinstance(value, int) else " as const"
    return f"/** {about} */\nexport const {name} = {written}{literal};"
