"""Logging in, in one step or two."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import views
from django.contrib.auth.decorators import login_not_required
from django.http import HttpResponseRedirect
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.utils.timezone import localtime
from django.views import View
from django_htmx.http import HttpResponseClientRefresh

from hosts.vault import SealBroken
from jobs.pages import unkept
from piherder.accounts import second_step
from piherder.accounts.enrolment import codes_page, enrolment, guess, left_words, wrong_code
from piherder.accounts.models import Rules

if TYPE_CHECKING:
    from typing import Any

    from django.contrib.auth.forms import AuthenticationForm
    from django.contrib.auth.models import User
    from django.http import HttpRequest, HttpResponse
    from django.http.response import HttpResponseBase

COMING = "Every account needs a second step from {:%Y-%m-%d %H:%M} on: set yours up under your name."
TAKEN_OFF = "Your second step was taken off meanwhile: log in anew."


class Login(views.LoginView):
    """The login page; a part that lives and whose session is over has its whole page loaded anew, which ends here."""

    redirect_authenticated_user = True

    @method_decorator(login_not_required)
    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Never put a login form into the middle of a page."""
        if getattr(request, "htmx", False):
            return HttpResponseClientRefresh()
        return super().dispatch(request, *args, **kwargs)

    def get_redirect_url(self, request: HttpRequest | None = None) -> str:
        """Where the person wanted to go; never the login itself, which Django would take for a mistake of ours."""
        found = super().get_redirect_url()
        return "" if urlsplit(found).path == self.request.path else found

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        """The password is right: in, or on to the second step."""
        user: User = form.get_user()
        if second_step.authenticator_of(user):
            return self.on_to("second_step_at_login", user)
        moment = Rules.load().second_step_from
        if second_step.is_duty(moment):
            return self.on_to("set_up_at_login", user)
        if moment:
            messages.warning(self.request, COMING.format(localtime(moment)))
        return super().form_valid(form)

    def on_to(self, name: str, user: User) -> HttpResponse:
        """To a page between the two steps, which knows where the person wanted to go."""
        second_step.hold_back(self.request, user)
        return HttpResponseRedirect(f"{reverse(name)}?{urlencode({'next': self.get_redirect_url()})}")


@method_decorator(login_not_required, name="dispatch")
class Between(views.RedirectURLMixin, View):
    """A page between the two steps; who has not gone the first begins with it."""

    next_page = settings.LOGIN_REDIRECT_URL
    is_for_the_first = False  # nobody sets up another app with nothing but the password
    user: User

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Know whose password was right."""
        user = second_step.held_back(request)
        if request.user.is_authenticated or user is None:
            return redirect("login")
        has_one = second_step.authenticator_of(user) is not None
        if has_one and self.is_for_the_first:
            return redirect("second_step_at_login")
        if not has_one and not self.is_for_the_first:
            messages.info(request, TAKEN_OFF)
            return redirect("login")
        self.user = user
        return super().dispatch(request, *args, **kwargs)

    def show(self, name: str, **context: Any) -> HttpResponse:
        """A page that no cache keeps."""
        context |= {"next": self.get_redirect_url(), "account": self.user.get_username()}
        return unkept(render(self.request, f"registration/{name}.html", context))


class SecondStep(Between):
    """The code."""

    def get(self, _request: HttpRequest) -> HttpResponse:
        """Ask for it."""
        return self.show("second_step")

    def post(self, request: HttpRequest) -> HttpResponse:
        """In, when it is right."""
        if refusal := guess(request, self.user):
            return refusal
        code = request.POST.get("code", "")
        try:
            if not second_step.accepts(self.user, code):
                return self.show("second_step", error=wrong_code())
        except SealBroken as broken:
            return self.show("second_step", error=f"{broken} A recovery code lets you in meanwhile.")
        second_step.log_in(request, self.user)
        left_words(request, self.user, code)
        return redirect(self.get_success_url())


class SetUp(Between):
    """A second step for who has none, where it is a duty."""

    is_for_the_first = True

    def get(self, _request: HttpRequest) -> HttpResponse:
        """Tell what comes."""
        return self.show("set_up")

    def post(self, request: HttpRequest) -> HttpResponse:
        """One step on, or why not."""
        try:
            return self.step(request)
        except SealBroken as broken:
            return self.show("set_up", error=str(broken))

    def step(self, request: HttpRequest) -> HttpResponse:
        """Show the key; or take it into use, when the code is right. Raises SealBroken."""
        if "code" not in request.POST:
            second_step.begin(self.user)
            return self.show("set_up", **enrolment(request, self.user))
        if refusal := guess(request, self.user):
            return refusal
        codes = second_step.confirm(self.user, request.POST["code"])
        if codes is None:
            return self.show("set_up", wrong=True, **enrolment(request, self.user))
        second_step.log_in(request, self.user)
        return codes_page(request, codes, self.get_success_url())
