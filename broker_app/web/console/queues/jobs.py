"""Pages of jobs: frames, which the browser fills over REST and STOMP."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from broker_app.web.console.base.frame import Page


class JobsPage(Page):
    def get(self, request: HttpRequest) -> HttpResponse:
        return render(request, "console/jobs.html")


class JobPage(Page):
    def get(self, request: HttpRequest) -> HttpResponse:
        job = request.GET.get("id", "")
        if not job:
            raise Http404("The address names no job.")
        return render(request, "console/job.html", {"job": job})
