"""Plain pages: the documentation that the node serves itself, and the end of the API."""

from datetime import UTC, datetime

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import get_template
from django.views.decorators.csrf import csrf_exempt

from broker_app.net.http.tracing import trace_member
from broker_app.net.problems import MEDIA_TYPE, PROBLEMS, problem_json


def problems(request: HttpRequest) -> HttpResponse:
    """All types of refusal."""
    return render(request, "problems.html", {"problems": PROBLEMS.values()})


def problem(request: HttpRequest, name: str) -> HttpResponse:
    """One type of refusal: where the `type` of a problem points to."""
    if name not in PROBLEMS:
        raise Http404
    return render(request, "problems.html", {"problems": [PROBLEMS[name]]})


#: characters of a sentence that are shown
_MAX_SAID = 200


def nowhere(request: HttpRequest, exception: Exception) -> HttpResponse:
    """The page of an address at which nothing is: inside the frame for who is logged in."""
    user = getattr(request, "user", None)
    if user is None or not user.is_authenticated:
        return render(request, "404.html", status=404)
    said = exception.args[0] if exception.args else ""
    fits = isinstance(said, str) and len(said) < _MAX_SAID
    return render(request, "console/not_found.html", {"detail": said if fits else ""}, status=404)


def failed(request: HttpRequest) -> HttpResponse:
    """The page of an error of the broker's own: where its log has it. Asks the database nothing, which may be
    what has failed."""
    facts = {"request": request, "broker_name": settings.MOM.name, "time": datetime.now(UTC)}
    return HttpResponse(get_template("500.html").render(facts), status=500)


@csrf_exempt
def no_api(request: HttpRequest, path: str) -> HttpResponse:
    """The reply for paths below /api that neither plane has; without a node, the whole data plane."""
    scope = getattr(request, "scope", {})
    if scope.get("mom.node") is not None:
        name, detail = "not-found", f"There is no /api/v1/{path} here."
    else:
        name, detail = "not-active", "This process serves pages; a broker is elsewhere."
    body = problem_json(name, detail, **(trace_member(scope) if scope else {}))
    return HttpResponse(body, status=PROBLEMS[name].status, content_type=MEDIA_TYPE)
