"""One's own account with its sessions and password; and, for admins, everyone's."""

from __future__ import annotations

from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

from django.contrib import messages
from django.contrib.auth.models import User
from django.contrib.auth.views import PasswordChangeView
from django.core.exceptions import PermissionDenied
from django.db.models import Exists, OuterRef
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse_lazy
from django.views.decorators.http import require_POST, require_safe

from jobs.pages import page
from piherder.accounts import second_step, sessions
from piherder.accounts.enrolment import guess, was_right
from piherder.accounts.forms import RoleForm
from piherder.accounts.models import Authenticator, Rules
from piherder.accounts.people import LastAdmin, set_active, set_role
from piherder.accounts.roles import Role, role_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.contrib.auth.forms import PasswordChangeForm
    from django.http import HttpRequest, HttpResponse

    from piherder.accounts.models import SignIn

P = ParamSpec("P")
ADMINS_ONLY = "Accounts are for admins: ask one of them."


@dataclass(frozen=True, slots=True)
class Row:
    """An account as the list shows it."""

    user: User
    sign_ins: list[SignIn]
    has_second_step: bool

    @property
    def role(self) -> Role:
        """What it may do."""
        return role_of(self.user)

    @property
    def state(self) -> str:
        """The name of the icon."""
        return "up" if self.user.is_active else "off"

    @property
    def words(self) -> str:
        """Whether it may log in."""
        return "may log in" if self.user.is_active else "kept out"


def admins_only(
    view: Callable[Concatenate[HttpRequest, P], HttpResponse],
) -> Callable[Concatenate[HttpRequest, P], HttpResponse]:
    """Guard of the pages about other people's accounts."""

    @wraps(view)
    def guarded(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        if not request.user.has_perm("auth.change_user"):
            raise PermissionDenied(ADMINS_ONLY)
        return view(request, *args, **kwargs)

    return guarded


def myself(request: HttpRequest) -> User:
    """Who asks; the login is required before any of these views."""
    assert isinstance(request.user, User)
    return request.user


@require_safe
def account(request: HttpRequest) -> HttpResponse:
    """Who I am here, and where I am logged in."""
    me = myself(request)
    context = {
        "role": role_of(me),
        "sign_ins": sessions.live().filter(user=me),
        "here": here(request),
        "has_second_step": second_step.authenticator_of(me) is not None,
    }
    return page(request, "accounts/account", context)


def here(request: HttpRequest) -> str | None:
    """The key of this session."""
    return request.session.session_key


@require_POST
def end_session(request: HttpRequest, pk: int) -> HttpResponse:
    """End one session: one's own, or as an admin anyone's."""
    may_all = request.user.has_perm("auth.change_user")
    rows = sessions.live() if may_all else sessions.live().filter(user=myself(request))
    found = get_object_or_404(rows.select_related("user"), pk=pk)
    sessions.end(rows.filter(pk=pk))
    messages.success(request, f"{sessions.browser_words(found.browser)} is logged out.")
    return redirect("account" if found.user == request.user else "accounts")


@require_POST
def sign_out_everywhere(request: HttpRequest) -> HttpResponse:
    """End all of one's own sessions, this one too."""
    sessions.end_all(myself(request))
    return redirect("login")


class Password(PasswordChangeView):
    """A new password of one's own; who was logged in with the old one elsewhere is out."""

    template_name = "accounts/password.html"
    success_url = reverse_lazy("account")

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """The old password that is asked for is a guess like any other."""
        return guess(request, myself(request)) or super().post(request, *args, **kwargs)

    def form_valid(self, form: PasswordChangeForm) -> HttpResponse:
        """The session goes on under a new key."""
        response = super().form_valid(form)
        me = myself(self.request)
        if not second_step.authenticator_of(me):  # else who knows the password alone could guess codes without end
            was_right(self.request, me)
        gone = sessions.end_others(self.request, me)
        others = f"; {gone} other session{'' if gone == 1 else 's'} ended" if gone else ""
        messages.success(self.request, f"Your password is changed{others}.")
        return response


@admins_only
@require_safe
def accounts(request: HttpRequest) -> HttpResponse:
    """Everyone who can log in, with their sessions."""
    found = list(sessions.live().select_related("user"))
    sure = Exists(Authenticator.objects.filter(user=OuterRef("pk"), confirmed=True))
    users = User.objects.annotate(has_second_step=sure).order_by("username").prefetch_related("groups")
    rows = [Row(user, [each for each in found if each.user_id == user.pk], user.has_second_step) for user in users]
    context = {"rows": rows, "roles": list(Role), "sessions": found, "here": here(request), "rules": Rules.load()}
    return page(request, "accounts/accounts", context)


@admins_only
@require_POST
def change_role(request: HttpRequest, pk: int) -> HttpResponse:
    """Give an account another role."""
    user, form = get_object_or_404(User, pk=pk), RoleForm(request.POST)
    if not form.is_valid():
        messages.error(request, "Choose a role from the list.")
        return redirect("accounts")
    role = Role(form.cleaned_data["role"])
    return told(request, lambda: set_role(user, role), f"{user} is {role.value} now.")


@admins_only
@require_POST
def keep_out(request: HttpRequest, pk: int) -> HttpResponse:
    """End an account's sessions and let it in no more."""
    user = get_object_or_404(User, pk=pk)
    return told(request, lambda: set_active(user, False), f"{user} can no longer log in.")


@admins_only
@require_POST
def let_in(request: HttpRequest, pk: int) -> HttpResponse:
    """Let an account log in again."""
    user = get_object_or_404(User, pk=pk)
    return told(request, lambda: set_active(user, True), f"{user} can log in again.")


@admins_only
@require_POST
def sign_out(request: HttpRequest, pk: int) -> HttpResponse:
    """End all sessions of an account."""
    user = get_object_or_404(User, pk=pk)
    sessions.end_all(user)
    messages.success(request, f"{user} is logged out everywhere.")
    return redirect("accounts")


def told(request: HttpRequest, change: Callable[[], Any], done: str) -> HttpResponse:
    """Change an account and say so, or why not."""
    try:
        change()
    except LastAdmin as refusal:
        messages.error(request, str(refusal))
    else:
        messages.success(request, done)
    return redirect("accounts")
