"""Jobs: what is done to many messages."""

from __future__ import annotations

from broker_app.base.states import JOB
from broker_app.features.jobs.plan import IMPORT, PLANNED, UNDO
from broker_app.net.rest.openapi.operations import (
    AFTER,
    IDEMPOTENCY_KEY,
    LINES,
    QUEUE,
    REPLAYED,
    in_path,
    json_body,
    json_reply,
    operation,
    parameter,
)
from broker_app.net.rest.openapi.schemas import (
    BOOLEAN,
    COUNT,
    COUNTS,
    HEADERS,
    NAME,
    OPTIONAL_TEXT,
    OPTIONAL_TIME,
    PAGING,
    SELECTOR_TEXT,
    TEXT,
    TIME,
    Json,
    array_of,
    object_of,
    ref,
    state_of,
    whole,
)

_JOB = object_of(
    {
        "id": TEXT,
        "op": {"enum": [*PLANNED, IMPORT, UNDO]},
        "state": state_of(JOB),
        "source": OPTIONAL_TEXT,
        "target": OPTIONAL_TEXT,
        "filter": {},
        "user": TEXT,
        "created": TIME,
        "started": OPTIONAL_TIME,
        "ended": OPTIONAL_TIME,
        "total": COUNT,
        "processed": COUNT,
        "done": COUNT,
        "gone": {**COUNT, "description": "had left the queue before"},
        "unsettled": {**COUNT, "description": "were handed out, and not touched"},
        "refused": COUNT,
        "rate_per_s": {"type": ["number", "null"]},
        "reason": {**OPTIONAL_TEXT, "description": "why it stopped or failed"},
        "can_undo": BOOLEAN,
        "undo_of": OPTIONAL_TEXT,
        "undone_by": OPTIONAL_TEXT,
    }
)
_JOB_ID = in_path("id", "of the job", {"type": "string", "minLength": 1})
_JOB_LOCATION: Json = {"Location": {"schema": TEXT}}

SCHEMAS: Json = {
    "JobRequest": object_of(
        {
            "plan": {**TEXT, "description": "of a dry run; everything else is then left out"},
            "op": {"enum": list(PLANNED)},
            "source": {**NAME, "description": "a queue"},
            "target": {"type": ["string", "null"], "description": "a queue, or origin"},
            "filter": {
                "anyOf": [{"type": "null"}, TEXT, ref("Filter")],
                "description": "members, or one line: `reason:REJECTED header.tenant:acme age_gt_s:60 text`",
            },
            "limit": {"type": ["integer", "null"], "minimum": 1, "maximum": 1_000_000},
            "rate_per_s": {"type": ["number", "null"], "minimum": 1, "maximum": 1_000_000},
            "max_error_ratio": {"type": "number", "exclusiveMinimum": 0, "maximum": 1, "default": 0.2},
            "dry_run": {**BOOLEAN, "default": False},
        },
        required=(),
    ),
    "Filter": object_of(
        {
            "ids": array_of(TEXT, 10_000),
            "selector": {**SELECTOR_TEXT, "description": "a condition on headers"},
            "reason": {**TEXT, "description": "a dead letter's reason, or a part of its detail"},
            "origin": {**TEXT, "description": "the queue where it died"},
            "headers": HEADERS,
            "age_gt_s": {"type": "number"},
            "age_lt_s": {"type": "number"},
            "q": {**TEXT, "description": "text in body or headers, in any case of letters"},
            "state": {
                "enum": ["ready", "delayed"],
                "description": "delayed: only messages that are not due yet",
            },
        },
        required=(),
    ),
    "Plan": object_of(
        {
            "plan": TEXT,
            "op": TEXT,
            "source": TEXT,
            "target": OPTIONAL_TEXT,
            "matches": COUNT,
            "count": {**COUNT, "description": "messages that the job would take"},
            "scanned": COUNT,
            "complete": {**BOOLEAN, "description": "false: not all messages were scanned"},
            "by_origin": COUNTS,
            "by_reason": COUNTS,
            "oldest": OPTIONAL_TIME,
            "newest": OPTIONAL_TIME,
            "sample": array_of(ref("BrowsedMessage"), 5),
            "warnings": array_of(TEXT),
            "valid_until": TIME,
        }
    ),
    "Job": _JOB,
    "JobPage": object_of({"items": array_of(ref("Job")), **PAGING}),
}

PATHS: Json = {
    "/jobs": {
        "get": operation(
            "list_jobs", "All jobs, the newest first", {"200": json_reply("jobs", ref("JobPage"))},
            parameters=[parameter("limit", whole(1, 500, 50), "most jobs of a page"), AFTER],
        ),
        "post": operation(
            "begin_job", "Do something to many messages, or plan it",
            {
                "200": json_reply("what would be done; nothing was changed", ref("Plan")),
                "202": json_reply("it has begun", ref("Job"), {**_JOB_LOCATION, **REPLAYED}),
            },
            404, 408, 409, 413, 415, 422, 503,
            parameters=[IDEMPOTENCY_KEY],
            body=json_body("JobRequest"),
        ),
    },
    "/jobs/{id}": {
        "get": operation(
            "get_job", "The progress of a job", {"200": json_reply("the job", ref("Job"))}, 404,
            parameters=[_JOB_ID],
        ),
    },
    "/jobs/{id}/cancel": {
        "post": operation(
            "cancel_job", "End a job; what it has done stays", {"200": json_reply("the job", ref("Job"))},
            404, 409, parameters=[_JOB_ID],
        ),
    },
    "/jobs/{id}/undo": {
        "post": operation(
            "undo_job", "Move the messages of a move or retry back that are still waiting",
            {"202": json_reply("the job that does it", ref("Job"), _JOB_LOCATION)},
            404, 409, 503, parameters=[_JOB_ID],
        ),
    },
    "/jobs/{id}/results": {
        "get": operation(
            "get_job_results", "What became of each message, so far", {"200": LINES}, 404,
            parameters=[_JOB_ID],
        ),
    },
    "/jobs/{id}/export": {
        "get": operation(
            "get_export", "The messages of an export", {"200": LINES}, 404, 409, parameters=[_JOB_ID]
        ),
    },
    "/queues/{name}/import": {
        "post": operation(
            "import_messages", "Upload messages; a job publishes them",
            {"202": json_reply("all lines have arrived", ref("Job"), _JOB_LOCATION)},
            404, 408, 409, 413, 415, 422, 503,
            # Lines take no key, which is refused and not ignored.
            parameters=[QUEUE, IDEMPOTENCY_KEY],
            body={
                "required": True,
                "content": {
                    "application/x-ndjson": {"schema": {"type": "string", "description": "an Item a line"}}
                },
            },
        ),
    },
}  # fmt: skip
