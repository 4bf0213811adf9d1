"""One active admin stays, whatever is asked for at whichever door, and however many ask at once."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.db import connection
from django.urls import reverse

from piherder.accounts import people as accounts
from piherder.accounts.people import LAST, LastAdmin, make_first_admin, set_active, set_role
from piherder.accounts.roles import Role, role_of
from tests import people

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.django_db


def admin(name: str = "boss", **fields: object) -> User:
    return people.make_user(name, Role.ADMIN, **fields)


def form(user: User, **changes: str) -> dict[str, str]:
    """What the admin's form of an account sends."""
    return {"username": user.username, "role": role_of(user), "is_active": "on", **changes}


def address(user: User, verb: str = "change") -> str:
    return reverse(f"admin:auth_user_{verb}", args=[user.pk])


@pytest.mark.parametrize("change", [lambda user: set_role(user, Role.OPERATOR), lambda user: set_active(user, False)])
@pytest.mark.parametrize("is_superuser", [True, False])
def test_the_last_one_stays(change: Callable[[User], None], is_superuser: bool) -> None:
    boss = admin(is_superuser=is_superuser)
    admin("kept-out", is_active=False)
    with pytest.raises(LastAdmin):
        change(boss)
    assert list(accounts.admins()) == [boss]


def test_with_another_one_a_superuser_becomes_what_the_role_says() -> None:
    boss = admin(is_superuser=True)
    admin("other")
    set_role(boss, Role.VIEWER)
    assert role_of(User.objects.get(pk=boss.pk)) == Role.VIEWER


def test_the_first_admin_is_made_once() -> None:
    assert make_first_admin("admin", "correct horse")
    made = User.objects.get()
    assert (made.check_password("correct horse"), role_of(made), made.is_superuser) == (True, Role.ADMIN, False)
    assert not make_first_admin("second", "x")


@pytest.mark.parametrize("is_superuser", [True, False])
def test_one_who_is_kept_out_is_no_reason_to_make_another(is_superuser: bool) -> None:
    User.objects.create_user("old", is_superuser=True, is_active=False) if is_superuser else admin(is_active=False)
    assert not make_first_admin("admin", "x")


# --- the admin's pages


def test_a_form_that_would_take_the_last_one_is_refused_in_words() -> None:
    boss = admin()
    browser = people.browser(boss)
    for changes in ({"role": "viewer"}, {"is_active": ""}):
        page = browser.post(address(boss), form(boss, first_name="New", **changes), follow=True).content.decode()
        assert LAST in page
        assert "was changed successfully" not in page
    boss.refresh_from_db()
    assert (boss.first_name, list(accounts.admins())) == ("", [boss])
    assert not LogEntry.objects.exists()


def test_who_is_kept_out_by_the_form_is_not_in_again_with_an_old_session() -> None:
    boss, other = admin(), people.make_user("other")
    theirs = people.browser(other)
    people.browser(boss).post(address(other), form(other, is_active=""))
    assert theirs.get("/account/").status_code == 302
    set_active(other, True)
    assert theirs.get("/account/").status_code == 302


def test_the_last_one_cannot_be_deleted() -> None:
    boss = admin()
    page = people.browser(boss).post(address(boss, "delete"), {"post": "yes"}, follow=True).content.decode()
    assert LAST in page
    assert User.objects.get() == boss


def test_nor_with_others_by_an_action() -> None:
    boss, other, reader = admin(), admin("other"), people.make_user("reader")
    data = {"action": "delete_selected", "_selected_action": [boss.pk, other.pk, reader.pk], "post": "yes"}
    page = people.browser(boss).post(reverse("admin:auth_user_changelist"), data, follow=True).content.decode()
    assert LAST in page
    assert User.objects.count() == 3
    assert not LogEntry.objects.exists()


def test_what_leaves_one_is_done() -> None:
    boss, other = admin(), admin("other")
    browser = people.browser(boss)
    browser.post(address(other), form(other, role="operator"))
    assert role_of(User.objects.get(pk=other.pk)) == Role.OPERATOR
    browser.post(address(other, "delete"), {"post": "yes"})
    assert User.objects.get() == boss


def test_a_new_account_has_the_role_that_was_chosen() -> None:
    data = {"username": "new", "role": "operator", "password1": "correct horse", "password2": "correct horse"}
    people.boss().post(reverse("admin:auth_user_add"), data)
    made = User.objects.get(username="new")
    assert (role_of(made), made.check_password("correct horse"), made.is_staff) == (Role.OPERATOR, True, False)


def test_an_account_without_password_cannot_be_made() -> None:
    data = {"username": "new", "role": "admin", "usable_password": "false", "password1": "", "password2": ""}
    assert "This field is required" in people.boss().post(reverse("admin:auth_user_add"), data).content.decode()
    assert not User.objects.filter(username="new").exists()


def test_a_password_cannot_be_taken_away() -> None:
    boss = admin(password="correct horse")
    data = {"usable_password": "false", "unset-password": "1", "password1": "", "password2": ""}
    people.browser(boss).post(reverse("admin:auth_user_password_change", args=[boss.pk]), data)
    assert User.objects.get().check_password("correct horse")


def test_the_list_says_the_role_and_costs_the_same_however_many(django_assert_max_num_queries) -> None:  # type: ignore[no-untyped-def]
    browser = people.boss()
    for number in range(30):
        people.make_user(f"user-{number}", Role.OPERATOR)
    with django_assert_max_num_queries(9):
        page = browser.get(reverse("admin:auth_user_changelist")).content.decode()
    assert page.count('<td class="field-role">operator</td>') == 30


# --- two at once


@pytest.mark.django_db(transaction=True)
def test_two_who_demote_each_other_leave_one() -> None:
    first, second = admin("first"), admin("second")
    told: list[str] = []
    is_done = threading.Event()

    def other_side() -> None:
        try:
            set_role(first, Role.VIEWER)
        except LastAdmin as refusal:
            told.append(str(refusal))
        finally:
            is_done.set()
            connection.close()

    thread = threading.Thread(target=other_side)
    with accounts.an_admin_stays():
        accounts.give_role(second, Role.VIEWER)
        thread.start()
        assert not is_done.wait(1.5), "the other change did not wait for this one"
    thread.join(30)
    assert told == [LAST]
    assert list(accounts.admins()) == [first]
