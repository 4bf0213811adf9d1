"""The second step of a login: set up, asked for, never right twice, counted like a password; and as a duty."""

from __future__ import annotations

import re
import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from axes.models import AccessAttempt
from django.contrib.sessions.models import Session
from django.db import connection
from django.test import Client
from django.utils import timezone
from django_otp import DEVICE_ID_SESSION_KEY
from django_otp.oath import TOTP

from hosts.vault import seal
from piherder.accounts import second_step
from piherder.accounts.limits import PER_ACCOUNT
from piherder.accounts.models import Authenticator, RecoveryCode, Rules, SignIn
from piherder.accounts.roles import Role
from tests import people
from tests.commands import herder

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from pytest_django import DjangoAssertNumQueries
    from pytest_django.fixtures import Settings

pytestmark = pytest.mark.django_db
RIGHT = "correct horse"
STEP = 30  # seconds a code is good for


@pytest.fixture
def user() -> User:
    return people.make_user("someone", Role.OPERATOR, password=RIGHT)


def app_code(user: User, *, begun: bool = False, later: int = 0) -> str:
    """What the app of an account shows, `later` steps from now."""
    totp = TOTP(Authenticator.objects.get(user=user, confirmed=not begun).key)
    totp.time = time.time() + later * STEP
    return f"{totp.token():06d}"


def equip(user: User) -> list[str]:
    """Give an account a second step; its recovery codes."""
    second_step.begin(user)
    codes = second_step.confirm(user, app_code(user, begun=True))
    assert codes
    Authenticator.objects.update(last_step=-1)  # the code of this half minute serves the test as well
    return codes


def half_in(name: str = "someone", onward: str = "") -> Client:
    """A browser whose password was right."""
    client = Client(REMOTE_ADDR="192.0.2.1")
    answer = client.post(f"/login/?next={onward}", {"username": name, "password": RIGHT})
    assert answer.status_code == 302, answer.content
    return client


def browser(user: User) -> Client:
    """Where this user is logged in through both steps."""
    client = people.browser(user)
    session = client.session
    session[DEVICE_ID_SESSION_KEY] = Authenticator.objects.get(user=user, confirmed=True).persistent_id
    session.save()
    return client


def is_in(client: Client) -> bool:
    """Whether a browser is logged in."""
    return client.get("/account/").status_code == 200


def give(client: Client, code: str, **more: str) -> str:
    """The page after a code was typed between the steps."""
    return client.post("/login/code/", {"code": code, **more}, follow=True).content.decode()


def send(client: Client, step: str, **data: str) -> str:
    """The page after a step of one's own page."""
    return client.post("/account/second-step/", {"step": step, **data}, follow=True).content.decode()


# --- setting it up


def test_it_is_set_up_with_the_password_and_a_code(user: User) -> None:
    client, other = people.browser(user), people.browser(user)
    page = send(client, "begin", password=RIGHT)
    begun = Authenticator.objects.get(user=user)
    assert not begun.confirmed
    assert second_step.spelled(begun) in page
    assert re.search(r'<svg[^>]* class="qr"', page)
    assert not second_step.authenticator_of(user)
    page = send(client, "confirm", code=app_code(user, begun=True))
    codes = re.findall(r"<code>([a-z2-7]{4}(?:-[a-z2-7]{4}){3})</code>", page)
    assert len(set(codes)) == second_step.CODES
    assert is_in(client)
    assert not is_in(other)  # it did not go through the second step


def test_a_wrong_password_begins_nothing(user: User) -> None:
    assert "This is not your password" in send(people.browser(user), "begin", password="guess")
    assert not Authenticator.objects.exists()


def test_a_wrong_code_confirms_nothing_and_shows_the_same_key(user: User) -> None:
    client = people.browser(user)
    send(client, "begin", password=RIGHT)
    key = second_step.spelled(Authenticator.objects.get())
    wrong = "000000" if app_code(user, begun=True) != "000000" else "000001"
    page = send(client, "confirm", code=wrong)
    assert "not the one of now" in page
    assert key in page
    assert not second_step.authenticator_of(user)


def test_another_app_takes_the_place_of_the_first(user: User) -> None:
    old = equip(user)
    client = browser(user)
    send(client, "begin", password=RIGHT, code=app_code(user))
    assert second_step.authenticator_of(user)  # the first holds until the new one is proven
    send(client, "confirm", code=app_code(user, begun=True))
    assert Authenticator.objects.filter(user=user).count() == 1
    assert not second_step.accepts(user, old[0])


def test_the_password_alone_puts_no_other_app_in_its_place(user: User) -> None:
    equip(user)
    client = browser(user)
    for code in ("", "12345"):
        assert "is not right" in send(client, "begin", password=RIGHT, code=code)
    assert not Authenticator.objects.filter(confirmed=False).exists()


def test_a_recovery_code_does(user: User) -> None:
    codes = equip(user)
    assert "Use this app" in send(browser(user), "begin", password=RIGHT, code=codes[0])


def test_one_that_was_begun_is_not_shown_to_another_session(user: User) -> None:
    send(people.browser(user), "begin", password=RIGHT)
    key, other = second_step.spelled(Authenticator.objects.get()), people.browser(user)
    page = send(other, "confirm", code="12345")
    assert key not in page
    assert "type your password again" in page
    send(other, "confirm", code=app_code(user, begun=True))
    assert not second_step.authenticator_of(user)


def test_nor_to_who_comes_to_the_page_later(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    client = people.browser(user)
    send(client, "begin", password=RIGHT)
    key, now = second_step.spelled(Authenticator.objects.get()), time.time
    monkeypatch.setattr("piherder.accounts.step_views.time.time", lambda: now() + second_step.PATIENCE + 1)
    assert key not in send(client, "confirm", code="12345")


def test_the_session_that_set_it_up_gets_a_new_key(user: User) -> None:
    client = people.browser(user)
    before = client.session.session_key
    send(client, "begin", password=RIGHT)
    send(client, "confirm", code=app_code(user, begun=True))
    assert client.session.session_key != before
    assert SignIn.objects.get().session_id == client.session.session_key


def test_a_new_password_takes_no_guess_at_codes_back(user: User) -> None:
    equip(user)
    client, new = browser(user), "battery staple"
    for _ in range(PER_ACCOUNT - 2):
        send(client, "remove", code="12345")
    client.post("/account/password/", {"old_password": RIGHT, "new_password1": new, "new_password2": new})
    user.refresh_from_db()
    assert user.check_password(new)
    send(client, "remove", code="12345")
    assert client.post("/account/second-step/", {"step": "remove", "code": app_code(user)}).status_code == 429


def test_the_secret_is_sealed_and_the_codes_are_not_kept(user: User) -> None:
    codes = equip(user)
    key = Authenticator.objects.get().key
    stored = str(list(Authenticator.objects.values()) + list(RecoveryCode.objects.values()))
    assert key.hex() not in stored
    assert not any(code in stored or code.replace("-", "") in stored for code in codes)


def test_the_apps_address_tells_herders_apart_and_names_nobody_else(user: User) -> None:
    user.username = "a&b=c d"
    user.save()
    second_step.begin(user)
    address = second_step.address_for_app(Authenticator.objects.get(), "herder.example:8000")
    assert address.startswith("otpauth://totp/PiHerder:a%26b%3Dc%20d%40herder.example%3A8000?secret=")
    assert address.endswith("&issuer=PiHerder")


# --- logging in


def test_the_password_alone_opens_nothing(user: User) -> None:
    equip(user)
    client = half_in()
    assert not is_in(client)
    for path in ("/", "/jobs/", "/admin/", "/account/second-step/"):
        assert client.get(path).headers["Location"].startswith(("/login/", "/jobs/", "/admin/login/")), path
    assert "Six digits" in client.get("/login/code/").content.decode()


def test_the_code_opens_and_leads_on(user: User) -> None:
    equip(user)
    client = half_in(onward="/hosts/")
    answer = client.post("/login/code/?next=/hosts/", {"code": app_code(user), "next": "/hosts/"})
    assert answer.headers["Location"] == "/hosts/"
    assert is_in(client)


def test_it_leads_nowhere_else(user: User) -> None:
    equip(user)
    client = half_in(onward="https://elsewhere.example/")
    answer = client.post("/login/code/", {"code": app_code(user), "next": "//elsewhere.example/"})
    assert answer.headers["Location"] == "/jobs/"


def test_a_link_from_the_login_to_itself_is_no_dead_end(user: User) -> None:
    client = people.browser(user)
    for onward in ("/login/", "/login/?next=/login/", "/login/code/"):
        answer = client.get("/login/", {"next": onward}, follow=True)
        assert answer.redirect_chain[-1][0] == "/jobs/", onward


def test_a_form_sent_after_the_session_ended_leads_to_a_page(user: User) -> None:
    client = Client(REMOTE_ADDR="192.0.2.1")
    answer = client.post("/hosts/pi/pause/", headers={"Referer": "http://testserver/hosts/?x=1"})
    there = answer.headers["Location"]
    answer = client.post(there, {"username": "someone", "password": RIGHT})
    assert answer.headers["Location"] == "/hosts/?x=1"


def test_and_says_that_nothing_was_done() -> None:
    page = Client().post("/hosts/pi/pause/", follow=True).content.decode()
    assert "You were logged out before this was sent, and nothing was changed" in page
    assert "nothing was changed" not in Client().post("/logout/", follow=True).content.decode()


@pytest.mark.parametrize("referer", ["", "http://elsewhere.example/hosts/", "x", "http://testserver:99/a", "//["])
def test_or_to_the_first_page(referer: str) -> None:
    answer = Client().post("/hosts/pi/pause/", headers={"Referer": referer})
    assert answer.headers["Location"] == "/login/?next=/"


def test_who_has_none_is_in_at_once(user: User) -> None:
    assert is_in(half_in())


def test_a_code_is_right_once(user: User) -> None:
    equip(user)
    code = app_code(user)
    give(half_in(), code)
    late = half_in()
    assert "was used before" in give(late, code)
    assert not is_in(late)


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """No half minute ends between a code and the look at it."""
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now)


@pytest.mark.usefixtures("still")
@pytest.mark.parametrize("later", [-1, 0, 1])
def test_a_clock_may_be_off_by_half_a_minute(user: User, later: int) -> None:
    equip(user)
    client = half_in()
    give(client, app_code(user, later=later))
    assert is_in(client)


@pytest.mark.usefixtures("still")
@pytest.mark.parametrize("later", [-2, 2])
def test_a_clock_may_not_be_off_by_a_minute(user: User, later: int) -> None:
    equip(user)
    client = half_in()
    assert "the herder has " in give(client, app_code(user, later=later))
    assert not is_in(client)


@pytest.mark.parametrize("code", ["", "12345", "1" * 5000, "\0\0\0\0\0\0", "١٢٣٤٥٦", "-12345", "abcdef"])
def test_odd_codes_are_wrong_codes(user: User, code: str) -> None:
    equip(user)
    client = half_in()
    give(client, code)
    assert not is_in(client)


def test_a_code_may_have_a_gap_in_the_middle(user: User) -> None:
    equip(user)
    client, code = half_in(), app_code(user)
    give(client, f" {code[:3]} {code[3:]} ")
    assert is_in(client)


def test_a_recovery_code_opens_once_and_is_counted(user: User) -> None:
    code = equip(user)[0]
    client = half_in()
    assert "9 of 10 left" in give(client, code.upper().replace("-", " "))
    assert is_in(client)
    late = half_in()
    give(late, code)
    assert not is_in(late)


def test_codes_are_guesses_and_a_right_one_no_longer_helps(user: User) -> None:
    equip(user)
    client = half_in()
    for _ in range(PER_ACCOUNT):
        give(client, "12345")
    answer = client.post("/login/code/", {"code": app_code(user)})
    assert answer.status_code == 429
    assert not is_in(client)


def test_who_keeps_typing_codes_waits_no_longer_for_it(user: User) -> None:
    equip(user)
    client = half_in()
    for _ in range(PER_ACCOUNT):
        give(client, "12345")
    AccessAttempt.objects.update(attempt_time=timezone.now() - timedelta(minutes=10))
    give(client, "12345")
    assert "Try again in 5 minutes." in give(client, "12345")


def test_the_password_again_takes_no_guess_back(user: User) -> None:
    equip(user)
    statuses = [half_in().post("/login/code/", {"code": "12345"}).status_code for _ in range(PER_ACCOUNT // 2)]
    assert statuses[0] == 200
    answer = Client(REMOTE_ADDR="192.0.2.1").post("/login/", {"username": "someone", "password": RIGHT})
    late = Client(REMOTE_ADDR="192.0.2.1").post("/login/", {"username": "someone", "password": RIGHT})
    assert {answer.status_code, late.status_code} == {302, 429}


def test_a_login_forgets_the_guesses(user: User) -> None:
    equip(user)
    client = half_in()
    give(client, "12345")
    give(client, app_code(user))
    assert is_in(client)
    for _ in range(PER_ACCOUNT - 1):
        assert (
            Client(REMOTE_ADDR="192.0.2.1").post("/login/", {"username": "someone", "password": "x"}).status_code == 200
        )


def test_ten_minutes_later_one_begins_again(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    equip(user)
    client = half_in()
    now = time.time
    monkeypatch.setattr("piherder.accounts.second_step.time.time", lambda: now() + second_step.PATIENCE + 1)
    assert client.get("/login/code/").headers["Location"] == "/login/"


@pytest.mark.parametrize("change", ["password", "inactive"])
def test_who_changed_meanwhile_begins_again(user: User, change: str) -> None:
    equip(user)
    client, code = half_in(), app_code(user)
    if change == "password":
        user.set_password("another one")
    user.is_active = change != "inactive"
    user.save()
    give(client, code)
    assert not is_in(client)


def test_the_session_gets_a_new_key_at_each_step(user: User) -> None:
    equip(user)
    client = Client()
    client.get("/login/")
    client.session.save()
    first = client.session.session_key
    client.post("/login/", {"username": "someone", "password": RIGHT})
    second = client.session.session_key
    give(client, app_code(user))
    assert len({first, second, client.session.session_key}) == 3


def test_a_lost_master_key_is_told_and_recovery_codes_still_open(user: User, settings: Settings) -> None:
    codes = equip(user)
    code = app_code(user)
    settings.PIHERDER_MASTER_KEYS = ["quite-another-master-key-than-before-0123456789"]
    client = half_in()
    assert "put back the master.key" in give(client, code)
    give(client, codes[0])
    assert is_in(client)


# --- taking it off


def test_it_is_taken_off_with_a_code(user: User) -> None:
    equip(user)
    client = browser(user)
    assert "is not right" in send(client, "remove", code="12345")
    assert second_step.authenticator_of(user)
    send(client, "remove", code=app_code(user))
    assert not second_step.authenticator_of(user)
    assert not RecoveryCode.objects.exists()


def test_new_recovery_codes_replace_the_old(user: User) -> None:
    old = equip(user)
    page = send(browser(user), "codes", code=app_code(user))
    assert page.count("<li><code>") == second_step.CODES
    assert not any(second_step.accepts(user, code) for code in old)


def test_guesses_on_ones_own_page_count_too(user: User) -> None:
    equip(user)
    client = browser(user)
    for _ in range(PER_ACCOUNT):
        send(client, "remove", code="12345")
    send(client, "remove", code=app_code(user))
    assert second_step.authenticator_of(user)


def test_an_admin_takes_it_off_who_lost_everything(user: User) -> None:
    equip(user)
    theirs, boss = browser(user), people.boss()
    page = boss.post(f"/accounts/{user.pk}/second-step/take-off/", follow=True).content.decode()
    assert "someone needs no code any more" in page
    assert not second_step.authenticator_of(user)
    assert not is_in(theirs)
    assert is_in(half_in())


@pytest.mark.parametrize("method", ["get", "post"])
def test_who_waits_at_the_code_meanwhile_is_told(user: User, method: str) -> None:
    equip(user)
    client = half_in()
    second_step.remove(user)
    page = getattr(client, method)("/login/code/", {"code": "123456"}, follow=True).content.decode()
    assert "taken off meanwhile: log in anew" in page
    assert not AccessAttempt.objects.filter(failures_since_start__gt=1).exists()


def test_an_admins_own_wants_a_code() -> None:
    boss = people.make_user("boss", Role.ADMIN, password=RIGHT)
    equip(boss)
    page = browser(boss).post(f"/accounts/{boss.pk}/second-step/take-off/", follow=True).content.decode()
    assert "under your name, with a code" in page
    assert second_step.authenticator_of(boss)


def test_recover_admin_takes_it_off(user: User) -> None:
    equip(user)
    assert herder("recover_admin", "someone").code == 0
    assert not second_step.authenticator_of(user)


# --- the duty


def test_the_duty_ends_sessions_without_a_second_step_when_grace_is_over(user: User) -> None:
    client, boss = people.browser(user), people.boss()
    page = boss.post("/accounts/second-step/", {"days": "7"}, follow=True).content.decode()
    assert "Everyone needs a second step in 7 days." in page
    assert is_in(client)
    Rules.objects.update(second_step_from=timezone.now() - timedelta(seconds=1))
    assert client.get("/jobs/").headers["Location"] == "/login/"
    assert "log in again" in client.get("/login/").content.decode()
    assert not is_in(client)


def test_who_has_none_is_told_while_there_is_time(user: User) -> None:
    assert "needs a second step" not in half_in().get("/jobs/").content.decode()
    second_step.require_in(7)
    client, moment = half_in(), Rules.load().second_step_from
    assert moment
    told = client.get("/jobs/").content.decode().split('<li class="warning">')[1].split("</li>")[0]
    assert f"{timezone.localtime(moment):%Y-%m-%d %H:%M}" in told
    assert 'class="icon warn"' in told
    assert is_in(client)
    equip(user)
    assert "needs a second step" not in half_in().get("/login/code/").content.decode()


def test_a_page_that_lives_is_loaded_anew_when_the_duty_begins(user: User) -> None:
    client = people.browser(user)
    second_step.require_in(0)
    answer = client.get("/jobs/", headers={"HX-Request": "true"})
    assert answer.headers["HX-Refresh"] == "true"


def test_who_went_through_it_stays_in_when_the_duty_begins(user: User) -> None:
    equip(user)
    client = half_in()
    give(client, app_code(user))
    second_step.require_in(0)
    assert is_in(client)


def test_who_took_theirs_off_before_the_duty_is_out_when_it_begins(user: User) -> None:
    equip(user)
    client = half_in()
    give(client, app_code(user))
    second_step.remove(user)
    assert is_in(client)
    second_step.require_in(0)
    assert client.get("/jobs/").headers["Location"] == "/login/"
    assert "set yours up" in client.get("/login/").content.decode()


def test_a_login_that_overlapped_with_the_setting_up_opens_nothing(user: User) -> None:
    equip(user)
    client = people.browser(user)  # its password was right before there was an app
    assert not is_in(client)
    assert "log in again, with a code" in client.get("/login/").content.decode()


def test_the_duty_is_met_at_the_login(user: User) -> None:
    second_step.require_in(0)
    client = half_in(onward="/hosts/")
    assert not is_in(client)
    page = client.post("/login/set-up/", {"next": "/hosts/"}).content.decode()
    assert second_step.spelled(Authenticator.objects.get()) in page
    page = client.post("/login/set-up/", {"code": app_code(user, begun=True), "next": "/hosts/"}).content.decode()
    assert page.count("<li><code>") == second_step.CODES
    assert 'href="/hosts/"' in page
    assert is_in(client)


@pytest.mark.parametrize("keys", [[], ["quite-another-master-key-than-before-0123456789"]])
def test_a_lost_master_key_is_told_at_the_duty_too(user: User, settings: Settings, keys: list[str]) -> None:
    second_step.require_in(0)
    client = half_in()
    client.post("/login/set-up/")
    code = app_code(user, begun=True)
    settings.PIHERDER_MASTER_KEYS = keys
    page = client.post("/login/set-up/", {"code": code}).content.decode()
    assert "put back the master.key" in page
    assert not is_in(client)
    assert ("put back the master.key" in client.post("/login/set-up/").content.decode()) != bool(keys)


def test_nobody_sets_up_another_app_with_the_password_alone(user: User) -> None:
    equip(user)
    second_step.require_in(0)
    client = half_in()
    assert client.post("/login/set-up/").headers["Location"] == "/login/code/"
    assert Authenticator.objects.filter(user=user, confirmed=False).count() == 0


def test_a_duty_is_not_taken_off(user: User) -> None:
    equip(user)
    second_step.require_in(30)
    assert "is a duty here" in send(browser(user), "remove", code=app_code(user))
    assert second_step.authenticator_of(user)


@pytest.mark.parametrize("days", ["-1", "91", "x", "1e3"])
def test_odd_times_of_grace_change_nothing(days: str) -> None:
    people.boss().post("/accounts/second-step/", {"days": days})
    assert not Rules.objects.exists()


def test_the_duty_ends(user: User) -> None:
    second_step.require_in(5)
    people.boss().post("/accounts/second-step/", {"days": ""})
    assert Rules.load().second_step_from is None


def test_the_duty_costs_no_question_of_its_own(user: User, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    client = people.browser(user)
    client.get("/logout/")  # what is asked for once
    with django_assert_num_queries(2):  # the session, the account
        client.get("/logout/")


# --- at once


@pytest.mark.django_db(transaction=True)
def test_of_many_at_once_one_gets_in_with_a_code(user: User) -> None:
    codes = equip(user)
    for code in (app_code(user), codes[0]):
        won: list[bool] = []
        gate = threading.Barrier(8)

        def guess(code: str = code, won: list[bool] = won, gate: threading.Barrier = gate) -> None:
            gate.wait(30)
            try:
                won.append(second_step.accepts(user, code))
            finally:
                connection.close()

        threads = [threading.Thread(target=guess) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert sorted(won) == [False] * 7 + [True]


def test_a_session_row_holds_no_password_and_no_code(user: User) -> None:
    equip(user)
    half_in()
    texts = [str(Session(session_data=row.session_data).get_decoded()) for row in Session.objects.all()]
    assert texts
    assert not any(RIGHT in text for text in texts)


def test_an_unsealed_row_of_another_key_is_refused_in_words(user: User) -> None:
    Authenticator.objects.create(user=user, confirmed=True, name="x", key_sealed=seal("00" * 20)[:-5] + "AAAA=")
    assert "put back the master.key" in give(half_in(), "123456")
