"""Accounts in the Django admin: a name, a password, one role. What would leave no admin is refused in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin, messages
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm
from django.contrib.auth.models import User
from django.db import transaction
from django.shortcuts import get_object_or_404, redirect

from piherder.accounts.people import LastAdmin, an_admin_stays, give_role, lock_admins, require_an_admin
from piherder.accounts.roles import Role, role_of
from piherder.accounts.sessions import end_all, end_others

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.db.models import QuerySet
    from django.http import HttpRequest, HttpResponse

    BaseAdmin = UserAdmin[User]
    ChangeForm = UserChangeForm[User]
    CreationForm = UserCreationForm[User]
    PasswordForm = AdminPasswordChangeForm[User]
else:
    BaseAdmin, ChangeForm, CreationForm = UserAdmin, UserChangeForm, UserCreationForm
    PasswordForm = AdminPasswordChangeForm


def role_field() -> forms.ChoiceField:
    """One of the three."""
    return forms.ChoiceField(choices=Role.choices, widget=forms.RadioSelect, initial=Role.VIEWER)


class AccountForm(ChangeForm):
    """An account with its one role."""

    role = role_field()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk:
            self.initial["role"] = role_of(self.instance)


class NewAccountForm(CreationForm):
    """A new account; one without a password could never log in."""

    role = role_field()


class NewPasswordForm(PasswordForm):
    """A new password, never none: that would be a way to lock the last admin out."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields.pop("usable_password", None)


class AccountAdmin(BaseAdmin):
    """Accounts; only admins have the permissions for them."""

    form, add_form, change_password_form = AccountForm, NewAccountForm, NewPasswordForm
    fieldsets = (
        (None, {"fields": ("username", "password", "role", "is_active")}),
        ("Person", {"fields": ("first_name", "last_name", "email")}),
        ("Dates", {"fields": ("last_login", "date_joined")}),
    )
    add_fieldsets = ((None, {"classes": ("wide",), "fields": ("username", "role", "password1", "password2")}),)
    list_display = ("username", "role", "is_active", "last_login")
    list_filter = ("is_active",)
    readonly_fields = ("last_login", "date_joined")
    filter_horizontal = ()

    @admin.display(description="Role")
    def role(self, user: User) -> str:
        """In one word."""
        return role_of(user).value

    def get_queryset(self, request: HttpRequest) -> QuerySet[User]:
        """With the groups that the role is read from."""
        return super().get_queryset(request).prefetch_related("groups")

    def save_model(self, request: HttpRequest, obj: User, form: Any, change: bool) -> None:
        """Nobody else changes accounts from here to the end of the transaction. Who is kept out has no session left."""
        lock_admins()
        super().save_model(request, obj, form, change)
        if not obj.is_active:
            end_all(obj)

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """The role, last of all. Raises LastAdmin."""
        super().save_related(request, form, formsets, change)
        give_role(form.instance, Role(form.cleaned_data["role"]))
        require_an_admin()

    def delete_model(self, request: HttpRequest, obj: User) -> None:
        """Raises LastAdmin."""
        with an_admin_stays():
            super().delete_model(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[User]) -> None:
        """Raises LastAdmin."""
        with an_admin_stays():
            super().delete_queryset(request, queryset)

    def user_change_password(self, request: HttpRequest, id: str, form_url: str = "") -> Any:  # noqa: A002  # Django's name
        """With a new password, whoever was logged in with the old one is out; an admin's own session goes on."""
        response = super().user_change_password(request, id, form_url)
        if request.method == "POST" and response.status_code == 302:
            end_others(request, get_object_or_404(User, pk=id))
        return response

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """A refusal is said on the same page."""
        return refused_in_words(request, lambda: super(AccountAdmin, self).changeform_view(request, *args, **kwargs))

    def delete_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """A refusal is said on the same page."""
        return refused_in_words(request, lambda: super(AccountAdmin, self).delete_view(request, *args, **kwargs))

    def changelist_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """An action that is refused leaves nothing, not even its line in the history."""
        return refused_in_words(request, lambda: super(AccountAdmin, self).changelist_view(request, *args, **kwargs))


def refused_in_words(request: HttpRequest, view: Callable[[], HttpResponse]) -> HttpResponse:
    """The view's answer; what would leave no admin is undone as a whole and told."""
    if request.method != "POST":
        return view()
    try:
        with transaction.atomic():
            return view()
    except LastAdmin as refusal:
        messages.error(request, str(refusal))
        return redirect(request.get_full_path())
