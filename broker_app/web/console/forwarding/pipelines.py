"""The pages of the data pipeline: its jobs, how far they have come, and the order to stop one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _

from broker_app.base.refused import Refused
from broker_app.base.states import RECONCILED
from broker_app.net.http.replies import NDJSON
from broker_app.pipeline import reconciliations, runs
from broker_app.pipeline.models import PipelineRun, Reconciliation
from broker_app.web.console.base.badges import badge
from broker_app.web.console.base.frame import AdministratorsPage
from broker_app.web.console.base.lag_chart import lag_chart
from broker_app.web.console.forwarding.pipeline_status import (
    Cursors,
    chart,
    in_list,
    in_words,
    whole,
)

#: size of a chart on the page of a run
_WIDTH, _HEIGHT = 600, 80
#: messages of a reconciliation on its page; the download has all that were reported
_SHOWN: Final = 100


class PipelinesPage(AdministratorsPage):
    """All runs, and the cursors of other programs."""

    def get(self, request: HttpRequest) -> HttpResponse:
        now, cursors, counts = datetime.now(UTC), Cursors.of(request), reconciliations.counts()
        known = list(runs.known())
        found = [in_list(run, cursors, counts.get(run.name), now) for run in known]
        others = cursors.others([run.name for run in known])
        context = {"runs": found, "others": others, "fault": cursors.fault}
        return render(request, "console/pipelines.html", context)

    def post(self, request: HttpRequest) -> HttpResponse:
        """Have the run in `name` stop, or forget it."""
        name, operation = request.POST.get("name", ""), request.POST.get("operation", "")
        try:
            if operation == "remove":
                runs.remove(name, datetime.now(UTC))
                messages.success(request, _("%(name)s was removed from the list.") % {"name": name})
                return redirect("console:pipelines")
            runs.request_stop(name)
            messages.success(request, _("%(name)s stops after its present batch.") % {"name": name})
        except Refused as refusal:
            messages.error(request, refusal.detail)
        if request.POST.get("from") == "run":
            return redirect(f"{reverse('console:pipeline')}?{urlencode({'name': name})}")
        return redirect("console:pipelines")


class PipelinePage(AdministratorsPage):
    """One run: its last batches, parameters, positions and result."""

    def get(self, request: HttpRequest) -> HttpResponse:
        run = _run(request)
        result = Reconciliation.objects.filter(run=run).first()
        counts = None if result is None else result.states
        cursors = Cursors.of(request)
        context = {
            "run": in_list(run, cursors, counts, datetime.now(UTC)),
            "lag_chart": lag_chart({one["name"]: one["lags"] for one in cursors.of_run(run.name)}),
            "fault": cursors.fault,
            "durations": chart([batch["ms"] for batch in run.batches], _WIDTH, _HEIGHT),
            "slowest": whole(max((batch["ms"] for batch in run.batches), default=None)),
            "batches": [_batch(batch) for batch in reversed(run.batches)],
            "offsets": sorted(run.offsets.items()),
            "parameters": in_words(run.parameters),
            "command": run.command,
            "result": result,
            "messages_not_ok": [] if result is None else [_message(row) for row in result.rows[:_SHOWN]],
        }
        return render(request, "console/pipeline.html", context)


class ReconciliationReport(AdministratorsPage):
    """The messages of a reconciliation that are not ok, as lines of JSON."""

    def get(self, request: HttpRequest) -> HttpResponse:
        run = _run(request)
        try:
            rows = reconciliations.find(run.name).rows
        except Refused as refusal:
            raise Http404(refusal.detail) from refusal
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        reply = HttpResponse(lines, content_type=NDJSON)
        reply["Content-Disposition"] = 'attachment; filename="differences.ndjson"'
        return reply


def _run(request: HttpRequest) -> PipelineRun:
    try:
        return runs.find(request.GET.get("name", ""))
    except Refused as refusal:
        raise Http404(refusal.detail) from refusal


def _batch(batch: Mapping[str, Any]) -> dict[str, object]:
    rows, ms = batch["rows"], batch["ms"]
    return {
        "number": batch["number"],
        "at": datetime.fromisoformat(batch["at"]),
        "rows": whole(rows),
        "ms": whole(ms),
        "rows_per_s": whole(1000 * rows / ms if ms else None),
    }


def _message(row: Mapping[str, Any]) -> dict[str, object]:
    return {**row, "state": badge(RECONCILED[row["state"]])}
