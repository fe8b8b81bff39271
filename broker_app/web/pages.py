"""Plain pages of documentation that the node serves itself."""

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from broker_app.net.problems import PROBLEMS


def problems(request: HttpRequest) -> HttpResponse:
    """All types of refusal."""
    return render(request, "problems.html", {"problems": PROBLEMS.values()})


def problem(request: HttpRequest, name: str) -> HttpResponse:
    """One type of refusal: where the `type` of a problem points to."""
    if name not in PROBLEMS:
        raise Http404
    return render(request, "problems.html", {"problems": [PROBLEMS[name]]})
