"""Plain pages: the documentation that the node serves itself, and the end of the API."""

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.csrf import csrf_exempt

from broker_app.net.problems import MEDIA_TYPE, PROBLEMS, problem_json
from broker_app.net.tracing import trace_member


def problems(request: HttpRequest) -> HttpResponse:
    """All types of refusal."""
    return render(request, "problems.html", {"problems": PROBLEMS.values()})


def problem(request: HttpRequest, name: str) -> HttpResponse:
    """One type of refusal: where the `type` of a problem points to."""
    if name not in PROBLEMS:
        raise Http404
    return render(request, "problems.html", {"problems": [PROBLEMS[name]]})


@csrf_exempt
def no_api(request: HttpRequest, path: str) -> HttpResponse:
    """What neither plane of the API knows; in a process without a node that is the whole data plane."""
    scope = getattr(request, "scope", {})
    if scope.get("mom.node") is not None:
        name, detail = "not-found", f"There is no /api/v1/{path} here."
    else:
        name, detail = "not-active", "This process serves pages; a broker is elsewhere."
    body = problem_json(name, detail, **(trace_member(scope) if scope else {}))
    return HttpResponse(body, status=PROBLEMS[name].status, content_type=MEDIA_TYPE)
