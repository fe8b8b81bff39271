"""Saved views: named addresses of pages, of one user or visible to all."""

from __future__ import annotations

from urllib.parse import urlsplit

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from broker_app.web.actions import Conflict, remove_view, save_view, views_of
from broker_app.web.console.base.frame import Page


class ViewForm(forms.Form):
    name = forms.CharField(max_length=100, label=gettext_lazy("Name"))
    address = forms.CharField(max_length=2000, label=gettext_lazy("Address"))
    shared = forms.BooleanField(
        required=False,
        label=gettext_lazy("visible to all users"),
        help_text=gettext_lazy(
            "Other users see the name and the address; the page shows them only what they may see."
        ),
    )

    def clean_address(self) -> str:
        """The address within the console; addresses outside are rejected."""
        parts = urlsplit(self.cleaned_data["address"].strip())
        elsewhere = parts.scheme or parts.netloc or "\\" in parts.path
        if elsewhere or not parts.path.startswith(reverse("console")):
            raise forms.ValidationError(_("The address of a view begins with %s") % reverse("console"))
        return f"{parts.path}?{parts.query}" if parts.query else parts.path


class SaveView(Page):
    """Save the address in `?address=` under a name, replacing a view of that name."""

    def get(self, request: HttpRequest) -> HttpResponse:
        form = ViewForm(initial={"address": request.GET.get("address", reverse("console"))})
        return render(request, "console/view.html", {"form": form})

    def post(self, request: HttpRequest) -> HttpResponse:
        form = ViewForm(request.POST)
        if not form.is_valid():
            return render(request, "console/view.html", {"form": form})
        given = form.cleaned_data
        try:
            save_view(request.user.get_username(), given["name"], given["address"], given["shared"])
        except Conflict as conflict:
            form.add_error(None, str(conflict))
            return render(request, "console/view.html", {"form": form})
        messages.success(request, _("The view %(name)s was saved.") % {"name": given["name"]})
        return redirect(given["address"])


class RemoveView(Page):
    """Remove an own view; administrators can also remove shared views of others."""

    def post(self, request: HttpRequest) -> HttpResponse:
        found = views_of(request.user.get_username()).filter(pk=request.POST.get("view") or 0).first()
        if found is None or not (found.owner == request.user.get_username() or request.user.is_superuser):
            raise Http404("There is no such view of yours.")
        remove_view(found)
        messages.success(request, _("The view %(name)s was removed.") % {"name": found.name})
        return redirect("console:settings")
