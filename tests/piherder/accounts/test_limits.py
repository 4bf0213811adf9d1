"""Guesses at passwords: what counts, for how long, what it says, and what takes it back."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from axes.models import AccessAttempt
from django.contrib.auth.models import User
from django.test import Client, RequestFactory

from piherder.accounts import limits
from piherder.accounts.limits import COOL_OFF, PER_ACCOUNT, PER_ADDRESS, UNKNOWN
from piherder.accounts.roles import Role, role_of
from tests import people
from tests.commands import herder, refused

if TYPE_CHECKING:
    from django.test.client import _MonkeyPatchedWSGIResponse as Answer
    from pytest_django import DjangoAssertNumQueries

pytestmark = pytest.mark.django_db
RIGHT = "correct horse"


@pytest.fixture
def boss() -> User:
    return people.make_user("boss", Role.ADMIN, password=RIGHT)


def guess(
    name: str = "boss", password: str = "wrong", address: str = "192.0.2.1", at: str = "/login/", **extra: str
) -> Answer:
    return Client().post(at, {"username": name, "password": password}, REMOTE_ADDR=address, **extra)  # type: ignore[arg-type]  # headers


def use_up(name: str = "boss", address: str = "192.0.2.1", times: int = PER_ACCOUNT) -> None:
    for _ in range(times):
        guess(name, address=address)


def later(by: timedelta) -> None:
    """Let every guess be that much older."""
    for row in AccessAttempt.objects.all():
        AccessAttempt.objects.filter(pk=row.pk).update(attempt_time=row.attempt_time - by)


def test_after_a_few_wrong_ones_the_right_one_is_refused_too(boss: User) -> None:
    answers = [guess().status_code for _ in range(PER_ACCOUNT + 1)]
    assert answers == [200] * (PER_ACCOUNT - 1) + [429, 429]
    refusal = guess(password=RIGHT)
    assert refusal.status_code == 429
    assert "Try again in 15 minutes." in refusal.content.decode()
    assert 880 < int(refusal.headers["Retry-After"]) <= 900
    assert "Content-Security-Policy" in refusal.headers


def test_another_address_does_not_help(boss: User) -> None:
    use_up()
    assert guess(password=RIGHT, address="198.51.100.7").status_code == 429


def test_nor_does_another_browser(boss: User) -> None:
    for number in range(PER_ACCOUNT):
        guess(HTTP_USER_AGENT=f"browser {number}")
    assert guess(password=RIGHT).status_code == 429


def test_nor_does_a_forwarded_address(boss: User) -> None:
    for number in range(PER_ADDRESS):
        guess(f"user-{number}", HTTP_X_FORWARDED_FOR=f"198.51.100.{number}")
    assert guess(password=RIGHT, HTTP_X_FORWARDED_FOR="198.51.100.99").status_code == 429


def test_an_address_that_tries_many_names_is_refused(boss: User) -> None:
    answers = [guess(f"user-{number}").status_code for number in range(PER_ADDRESS)]
    assert answers == [200] * (PER_ADDRESS - 1) + [429]
    assert guess(password=RIGHT).status_code == 429
    assert guess(password=RIGHT, address="198.51.100.7").status_code == 302


def test_there_is_no_way_around_through_the_administration(boss: User) -> None:
    login = Client().get("/admin/login/?next=/admin/jobs/job/")
    assert login.headers["Location"] == "/login/?next=/admin/jobs/job/"
    for _ in range(PER_ACCOUNT):
        assert guess(at="/admin/login/").status_code == 302
    assert not AccessAttempt.objects.exists()
    use_up()
    assert "/login/" in guess(at="/admin/login/", password=RIGHT)["Location"]


@pytest.mark.parametrize("times", [1, PER_ACCOUNT, PER_ACCOUNT + 1])
def test_nothing_tells_whether_there_is_such_an_account(boss: User, times: int) -> None:
    people.make_user("gone", password=RIGHT, is_active=False)

    def last(name: str) -> tuple[int, str]:
        use_up(name, times=times - 1)
        answer = guess(name, RIGHT if name == "gone" else "wrong")
        return answer.status_code, answer.content.decode().replace(name, "NAME").split("csrfmiddlewaretoken")[0]

    assert last("boss") == last("nobody") == last("gone")


def test_the_wait_ends(boss: User) -> None:
    use_up()
    later(COOL_OFF - timedelta(seconds=30))
    assert "Try again in 1 minute." in guess(password=RIGHT).content.decode()
    later(timedelta(seconds=30))
    assert guess(password=RIGHT).status_code == 302


def test_who_keeps_trying_waits_no_longer_for_it(boss: User) -> None:
    use_up()
    later(timedelta(minutes=10))
    assert guess().status_code == 429
    assert "Try again in 5 minutes." in guess().content.decode()


def test_old_guesses_are_removed_and_new_ones_begin_at_one(boss: User) -> None:
    use_up(times=PER_ACCOUNT - 1)
    later(COOL_OFF)
    guess()
    assert AccessAttempt.objects.get().failures_since_start == 1


def test_a_clock_that_was_ahead_makes_nobody_wait_for_it(boss: User) -> None:
    use_up()
    later(-timedelta(days=400))
    assert guess(password=RIGHT).status_code == 302


def test_a_login_takes_back_ones_own_slips(boss: User) -> None:
    use_up(times=PER_ACCOUNT - 1)
    assert guess(password=RIGHT).status_code == 302
    assert not AccessAttempt.objects.exists()


def test_but_not_what_was_tried_at_others_or_from_elsewhere(boss: User) -> None:
    people.make_user("eve", password=RIGHT)
    use_up(times=2)
    use_up("eve", address="198.51.100.7", times=2)
    guess("eve", RIGHT)
    left = AccessAttempt.objects.values_list("username", "ip_address", "failures_since_start")
    assert set(left) == {("boss", "192.0.2.1", 2), ("eve", "198.51.100.7", 2)}


def test_nothing_that_was_typed_is_kept_but_the_name(boss: User, caplog: pytest.LogCaptureFixture) -> None:
    Client().post(
        "/login/?next=PLANTED", {"username": "boss", "password": "PLANTED", "x": "PLANTED"}, REFERER="PLANTED"
    )
    assert "PLANTED" not in str(AccessAttempt.objects.values().get())
    guess("PLANTED")
    assert "PLANTED" not in caplog.text
    assert "A login from 192.0.2.1 failed." in caplog.text


@pytest.mark.parametrize("name", ["a\x00b", "🐑" * 100, "x" * 151, " ", "boss\n", "' OR 1=1 --"])
def test_odd_names_are_only_wrong(name: str) -> None:
    for _ in range(2):
        assert guess(name).status_code == 200


@pytest.mark.parametrize(
    ("said", "counted"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("::1", "::1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("fe80::1%eth0", "fe80::"),
        ("", UNKNOWN),
        ("unix:", UNKNOWN),
    ],
)
def test_what_counts_as_an_address(said: str, counted: str) -> None:
    assert limits.address_of(RequestFactory().get("/", REMOTE_ADDR=said)) == counted
    guess("someone", address=said)
    assert AccessAttempt.objects.get().ip_address == counted


def test_behind_a_unix_socket_all_are_one_address(boss: User) -> None:
    for number in range(PER_ADDRESS):
        guess(f"user-{number}", address="")
    assert guess(password=RIGHT, address="").status_code == 429
    assert guess(password=RIGHT).status_code == 302


def test_a_guess_costs_few_queries(boss: User, django_assert_max_num_queries: DjangoAssertNumQueries) -> None:
    guess()
    with django_assert_max_num_queries(12):
        guess()
    use_up()
    with django_assert_max_num_queries(8):
        guess()


# --- commands


def test_unlock_login_lets_an_account_try_again(boss: User) -> None:
    use_up()
    use_up("other", times=1)
    assert herder("unlock_login", "boss").out == f"{PER_ACCOUNT} wrong guesses forgotten.\n"
    assert guess(password=RIGHT).status_code == 302
    assert AccessAttempt.objects.get().username == "other"


def test_the_page_names_the_command_that_helps(boss: User) -> None:
    def said(name: str, address: str = "192.0.2.1") -> list[str]:
        return re.findall("herder unlock_login (.*?)</code>", guess(name, address=address).content.decode())

    use_up()
    assert said("boss") == ["NAME"]
    for number in range(PER_ADDRESS):
        guess(f"user-{number}")
    assert said("boss") == ["--all"]
    assert said("other") == ["--address 192.0.2.1"]
    herder("unlock_login", *said("other")[0].split())
    assert guess("other").status_code == 200


def test_or_an_address_or_all() -> None:
    use_up("a", "2001:db8::1", 1)
    use_up("b", times=2)
    assert herder("unlock_login", "--address", "2001:db8::99").out == "1 wrong guess forgotten.\n"
    assert herder("unlock_login", "--all").out == "2 wrong guesses forgotten.\n"


def test_unlock_login_wants_to_know_whose() -> None:
    assert "ne of the arguments" in refused("unlock_login")
    assert refused("unlock_login", "--address", "x") == "x is no address: write it like 192.0.2.7."


def test_recover_admin_lets_an_account_in_again(boss: User) -> None:
    browser = people.browser(boss)
    people.make_user("other", Role.ADMIN)
    boss.groups.clear()
    User.objects.filter(pk=boss.pk).update(is_active=False)
    use_up()
    line = herder("recover_admin", "boss").out
    password = line.split("password ")[1].split(" ")[0]
    assert line == f"User boss, password {password} (shown once, never again)\n"
    assert guess(password=password).status_code == 302
    assert role_of(User.objects.get(pk=boss.pk)) == Role.ADMIN
    assert browser.get("/jobs/")["Location"].startswith("/login/")
    assert not User.objects.get(pk=boss.pk).check_password(RIGHT)


def test_recover_admin_names_who_is_there() -> None:
    assert refused("recover_admin", "x") == "There is no account yet: ./herder first_start --admin makes one."
    people.make_user("boss")
    assert refused("recover_admin", "x") == "There is no account called x: known are boss."
    for number in range(10):
        people.make_user(f"user-{number}")
    assert refused("recover_admin", "x").endswith("user-8 ….")


def test_the_attempts_are_told_apart_by_the_moment(boss: User) -> None:
    """Those that stopped counting first set free: four old ones and one new one wait for the old ones only."""
    use_up(address="192.0.2.1", times=PER_ACCOUNT - 1)
    later(timedelta(minutes=10))
    guess(address="192.0.2.2")
    left = limits.wait("boss", "192.0.2.9")
    assert left is not None
    assert timedelta(minutes=4) < left <= timedelta(minutes=5)
