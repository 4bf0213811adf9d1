"""Sessions: written down at the login, listed, ended; a session key is on no page."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from axes.models import AccessAttempt
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from piherder.accounts import sessions
from piherder.accounts.limits import PER_ACCOUNT
from piherder.accounts.models import SignIn
from piherder.accounts.people import LAST
from piherder.accounts.roles import Role, role_of
from tests import people
from tests.commands import herder

if TYPE_CHECKING:
    from pytest_django import DjangoAssertNumQueries

pytestmark = pytest.mark.django_db
RIGHT = "correct horse"
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"


@pytest.fixture
def user() -> User:
    return people.make_user("someone", Role.OPERATOR, password=RIGHT)


@pytest.fixture
def boss() -> Client:
    return people.boss()


def log_in(name: str = "someone", agent: str = FIREFOX, address: str = "192.0.2.1") -> Client:
    """A browser that went through the login page."""
    client = Client(REMOTE_ADDR=address, HTTP_USER_AGENT=agent)
    assert client.post("/login/", {"username": name, "password": RIGHT}).status_code == 302
    return client


def is_in(client: Client) -> bool:
    """Whether a browser is still logged in."""
    return client.get("/account/").status_code == 200


def send(client: Client, name: str, *args: object, **data: str) -> str:
    """The page after a form was sent."""
    return client.post(reverse(name, args=args), data, follow=True).content.decode()


# --- what is written down


def test_a_login_is_written_down(user: User) -> None:
    log_in()
    row = SignIn.objects.get()
    assert (row.user, row.address, row.browser) == (user, "192.0.2.1", FIREFOX)
    assert timezone.now() - row.at < timedelta(minutes=1)


@pytest.mark.parametrize(
    ("address", "kept"), [("", None), ("fe80::1%eth0", "fe80::1"), ("2001:db8::9", "2001:db8::9"), ("unix:", None)]
)
def test_an_address_is_kept_as_it_is_or_not_at_all(user: User, address: str, kept: str | None) -> None:
    client = log_in(address=address)
    assert SignIn.objects.get().address == kept
    assert (kept or "unknown") in client.get("/account/").content.decode()


def test_odd_browsers_are_kept_harmlessly(user: User) -> None:
    client = log_in(agent="<script>a\x00" + "x" * 5000)
    assert len(SignIn.objects.get().browser) == 300
    page = client.get("/account/").content.decode()
    assert "&lt;script&gt;ax" in page
    assert "<script>a" not in page


def test_a_login_over_another_one_leaves_one(user: User) -> None:
    other = people.make_user("other", password=RIGHT)
    client = people.browser(user)
    client.force_login(other)
    assert SignIn.objects.get().user == other


def test_logout_and_age_take_the_row_along(user: User) -> None:
    log_in().post("/logout/")
    assert not SignIn.objects.exists()
    log_in()
    Session.objects.update(expire_date=timezone.now() - timedelta(seconds=1))
    assert not sessions.live().exists()
    call_command("clearsessions")
    assert not SignIn.objects.exists()


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        (FIREFOX, "Firefox 140 on Linux"),
        (
            "Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 Chrome/141.0 Edg/141.0",
            "Edge 141 on Windows",
        ),
        (
            "Mozilla/5.0 (Linux; Android 15) Chrome/140.0 Mobile Safari/537.36",
            "Chrome 140 on Android",
        ),
        ("Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) Version/18.0 Safari/604.1", "Safari 18 on iPhone"),
        ("Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15) Version/17.1 Safari/605.1", "Safari 17 on macOS"),
        ("curl/8.14.1", "curl 8"),
        ("a program of one's own", "a program of one's own"),
        ("", "unknown browser"),
    ],
)
def test_browsers_in_words(agent: str, words: str) -> None:
    assert sessions.browser_words(agent) == words


# --- one's own account


def test_the_page_lists_ones_own_sessions_only(user: User, boss: Client) -> None:
    client = log_in()
    log_in(agent="curl/8.1", address="198.51.100.7")
    page = client.get("/account/").content.decode()
    for words in ("someone", "Operator: runs jobs", "Firefox 140 on Linux", "curl 8", "198.51.100.7", "this one"):
        assert words in page, words
    assert page.count("/end/") == 1
    assert "All accounts" not in page


def test_no_page_shows_a_session_key(user: User, boss: Client) -> None:
    log_in()
    keys = Session.objects.values_list("session_key", flat=True)
    for address in ("/account/", "/accounts/", "/admin/auth/user/"):
        page = boss.get(address).content.decode()
        assert not [key for key in keys if key in page]


def test_a_session_is_ended(user: User) -> None:
    mine, other = log_in(), log_in(agent="curl/8.1")
    page = send(mine, "end_session", SignIn.objects.get(browser="curl/8.1").pk)
    assert "curl 8 is logged out." in page
    assert (is_in(mine), is_in(other)) == (True, False)


def test_nobody_ends_what_is_not_theirs(user: User) -> None:
    other = people.signed_in("other", Role.OPERATOR)
    log_in()
    row = SignIn.objects.get(user=user)
    assert other.post(reverse("end_session", args=[row.pk])).status_code == 404
    assert other.post(reverse("end_session", args=[987654])).status_code == 404
    assert SignIn.objects.filter(pk=row.pk).exists()


def test_an_admin_does(user: User, boss: Client) -> None:
    client = log_in()
    page = send(boss, "end_session", SignIn.objects.get(user=user).pk)
    assert "Firefox 140 on Linux is logged out." in page
    assert (is_in(client), is_in(boss)) == (False, True)


def test_log_out_everywhere_means_here_too(user: User, boss: Client) -> None:
    clients = [log_in(), log_in(agent="curl/8.1")]
    answer = clients[0].post(reverse("sign_out_everywhere"))
    assert answer["Location"] == "/login/"
    assert [is_in(client) for client in clients] == [False, False]
    assert is_in(boss)


def test_a_new_password_ends_the_other_sessions(user: User) -> None:
    mine, other = log_in(), log_in(agent="curl/8.1")
    data = {"old_password": RIGHT, "new_password1": "battery staple", "new_password2": "battery staple"}
    page = send(mine, "password", **data)
    assert "Your password is changed; 1 other session ended." in page
    assert (is_in(mine), is_in(other)) == (True, False)
    assert SignIn.objects.get().session.get_decoded()[SESSION_KEY] == str(user.pk)
    assert User.objects.get().check_password("battery staple")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (
            {"old_password": "wrong", "new_password1": "battery staple", "new_password2": "battery staple"},
            "incorrectly",
        ),
        ({"old_password": RIGHT, "new_password1": "12345678", "new_password2": "12345678"}, "too common"),
        ({"old_password": RIGHT, "new_password1": "battery", "new_password2": "staple"}, "match"),
        ({}, "required"),
    ],
)
def test_a_password_that_cannot_be_is_told_at_its_field(user: User, data: dict[str, str], said: str) -> None:
    page = send(log_in(), "password", **data)
    assert said in page.split('class="wrong"')[1]
    assert RIGHT not in page
    assert User.objects.get().check_password(RIGHT)


def test_who_sits_at_an_open_page_does_not_guess_the_old_one_forever(user: User) -> None:
    client = log_in()
    data = {"new_password1": "battery staple", "new_password2": "battery staple"}
    for _ in range(PER_ACCOUNT):
        send(client, "password", old_password="guess", **data)
    assert client.post(reverse("password"), {"old_password": RIGHT, **data}).status_code == 429
    assert User.objects.get().check_password(RIGHT)


def test_a_slip_at_the_old_one_is_forgotten_after_the_change(user: User) -> None:
    client = log_in()
    data = {"new_password1": "battery staple", "new_password2": "battery staple"}
    send(client, "password", old_password="slip", **data)
    send(client, "password", old_password=RIGHT, **data)
    assert not AccessAttempt.objects.exists()


def test_the_administration_has_no_other_page_for_it(user: User) -> None:
    assert log_in().get("/admin/password_change/")["Location"] == "/account/password/"


# --- everyone's


def test_the_list_shows_everyone(user: User, boss: Client) -> None:
    people.make_user("gone", is_active=False)
    log_in()
    page = boss.get("/accounts/").content.decode()
    for words in ("someone", "kept out", "Firefox 140 on Linux", '<option value="operator" selected>'):
        assert words in page, words


def test_a_role_is_changed(user: User, boss: Client) -> None:
    assert "someone is admin now." in send(boss, "change_role", user.pk, role="admin")
    assert role_of(User.objects.get(pk=user.pk)) == Role.ADMIN
    assert "Choose a role" in send(boss, "change_role", user.pk, role="wheel")
    assert boss.post(reverse("change_role", args=[987654]), {"role": "viewer"}).status_code == 404


def test_who_is_kept_out_is_out_at_once_and_can_be_let_in(user: User, boss: Client) -> None:
    client = log_in()
    assert "someone can no longer log in." in send(boss, "keep_out", user.pk)
    assert not SignIn.objects.filter(user=user).exists()
    assert not is_in(client)
    assert "someone can log in again." in send(boss, "let_in", user.pk)
    assert is_in(log_in())


def test_the_last_admin_stays_here_too(boss: Client) -> None:
    me = User.objects.get()
    for page in (send(boss, "change_role", me.pk, role="viewer"), send(boss, "keep_out", me.pk)):
        assert LAST in page
    assert is_in(boss)
    assert role_of(User.objects.get()) == Role.ADMIN


def test_an_admin_logs_someone_out(user: User, boss: Client) -> None:
    clients = [log_in(), log_in(agent="curl/8.1")]
    assert "someone is logged out everywhere." in send(boss, "sign_out", user.pk)
    assert [is_in(client) for client in clients] == [False, False]
    assert is_in(boss)


def test_a_password_set_by_an_admin_ends_their_sessions_and_not_the_admins(user: User, boss: Client) -> None:
    client = log_in()
    data = {"password1": "battery staple", "password2": "battery staple"}
    boss.post(reverse("admin:auth_user_password_change", args=[user.pk]), data)
    assert (is_in(client), is_in(boss)) == (False, True)
    assert [row.user.username for row in SignIn.objects.all()] == ["boss"]


def test_recover_admin_leaves_no_session(user: User, boss: Client) -> None:
    log_in()
    herder("recover_admin", "someone")
    assert [row.user.username for row in SignIn.objects.all()] == ["boss"]


def test_pages_cost_the_same_however_many(boss: Client, django_assert_max_num_queries: DjangoAssertNumQueries) -> None:
    me = User.objects.get()
    for number in range(30):
        people.browser(people.make_user(f"user-{number}", Role.OPERATOR))
        people.browser(me)
    for address, most in (("/account/", 7), ("/accounts/", 8)):
        with django_assert_max_num_queries(most):
            boss.get(address)
