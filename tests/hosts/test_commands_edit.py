"""`edit_host`, `remove_host`, `pause_host` and `hosts`: what is typed and what becomes of it."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta

import pytest
from django.core.management.base import CommandError
from django.utils import timezone
from django_celery_beat.models import PeriodicTask

from hosts.enrol import add_source, backup_schedule
from hosts.management.commands.edit_host import duration
from hosts.management.commands.pause_host import moment
from hosts.models import BackupRoot, Host, Source
from hosts.vault import unseal
from jobs.models import Door
from jobs.services import Asker, request_job
from tests.commands import herder, refused
from tests.factories import make_host

pytestmark = pytest.mark.django_db


@pytest.fixture
def host(db: None) -> Host:
    return make_host("pi1")


def edited(*words: str) -> Host:
    """The host after an edit that worked."""
    ran = herder("edit_host", "pi1", *words)
    assert (ran.code, ran.err) == (0, ""), ran
    assert ran.out.startswith("pi1 is changed.\n")
    return Host.objects.select_related("jump", "backup_root").get(name="pi1")


@pytest.mark.parametrize(
    ("option", "value", "field", "stored"),
    [
        ("--address", "pi.lan", "address", "pi.lan"),
        ("--port", "2222", "port", 2222),
        ("--user", "ann", "user", "ann"),
        ("--bandwidth", "500", "bandwidth_kib", 500),
        ("--backup-limit", "90m", "backup_limit", timedelta(minutes=90)),
        ("--keep-last", "5", "keep_last", 5),
        ("--keep-daily", "0", "keep_daily", 0),
        ("--keep-weekly", "8", "keep_weekly", 8),
        ("--keep-monthly", "24", "keep_monthly", 24),
        ("--before-hook", "sync; true", "before_hook", "sync; true"),
        ("--after-hook", "echo done", "after_hook", "echo done"),
    ],
)
def test_every_field_is_set(option: str, value: str, field: str, stored: object, host: Host) -> None:
    assert getattr(edited(option, value), field) == stored


def test_what_is_not_named_stays(host: Host) -> None:
    Host.objects.update(user="ann", before_hook="sync")
    after = edited("--port", "2222")
    assert (after.user, after.before_hook) == ("ann", "sync")


def test_hooks_and_flags_can_be_taken_back(host: Host) -> None:
    assert edited("--before-hook", "sync", "--hooks-touch-stacks").hooks_touch_stacks
    after = edited("--before-hook", "", "--no-hooks-touch-stacks")
    assert (after.before_hook, after.hooks_touch_stacks) == ("", False)


def test_the_jump_host_is_set_and_taken_back(host: Host) -> None:
    gate = make_host("gate")
    assert edited("--jump", "gate").jump == gate
    assert edited("--jump", "").jump is None


def test_the_backup_root_is_set_and_taken_back(host: Host) -> None:
    root = BackupRoot.objects.create(path="/mnt/disk")
    assert edited("--backup-root", "/mnt/disk/").backup_root == root
    assert edited("--backup-root", "").backup_root is None


def test_the_sudo_password_is_sealed_and_forgotten(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("S3cret \n"))
    sealed = edited("--sudo-password-stdin").sudo_password_sealed
    assert "S3cret" not in sealed
    assert unseal(sealed) == "S3cret "
    assert not edited("--no-sudo-password").sudo_password_sealed


def test_sources_come_and_go(host: Host) -> None:
    add_source(host, "/home")
    edited("--source", "/srv", "--remove-source", "/home", "--exclude", "*.tmp")
    assert list(Source.objects.values_list("path", "excludes")) == [("/srv", ["*.tmp"])]
    edited("--exclude", "")
    assert Source.objects.get().excludes == []


def test_a_smaller_source_is_accepted_once_asked(host: Host) -> None:
    add_source(host, "/home")
    edited("--accept-shrink", "/home")
    assert Source.objects.get().accept_shrink


def test_the_schedule_is_moved(host: Host) -> None:
    backup_schedule(host)
    edited("--cron", "15 4 * * 1", "--zone", "Europe/Berlin")
    assert str(PeriodicTask.objects.get().crontab).startswith("15 4 * * 1")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "Name what to change"),
        (["--port", "0"], "port: Ensure this value is greater than or equal to 1."),
        (["--keep-last", "0"], "keep last: Ensure"),
        (["--jump", "pi1"], "pi1 cannot be reached through itself"),
        (["--backup-root", "/nowhere"], "/nowhere is no backup root: known are none."),
        (["--remove-source", "/srv"], "pi1 has no source /srv: it has none."),
        (["--backup-limit", "0"], "Argument --backup-limit: invalid duration value: '0'"),
        (["--cron", "1 2 3"], "A cron line has five fields"),
        (["--zone", "Europe/Berlin"], "--zone belongs to --cron."),
        (["--trust-first-key", "--port", "1"], "--fingerprint and --trust-first-key belong to --repin."),
    ],
)
def test_wrong_use_changes_nothing(words: list[str], sentence: str, host: Host) -> None:
    before = Host.objects.values().get()
    assert refused("edit_host", "pi1", *words).startswith(sentence)
    assert Host.objects.values().get() == before


def test_all_changes_are_made_or_none(host: Host) -> None:
    refused("edit_host", "pi1", "--port", "2222", "--source", "/srv", "--source", "/srv/data")
    assert Host.objects.get().port == 22
    assert not Source.objects.exists()


def test_a_host_is_removed_only_after_a_yes(host: Host) -> None:
    assert refused("remove_host", "pi1") == "Nobody can be asked whether to remove pi1: add --yes."
    backup_schedule(host)
    ran = herder("remove_host", "pi1", "--yes")
    assert (ran.code, ran.out) == (0, "pi1 is removed, 1 schedule is off; its 0 generations stay.\n")
    assert "There is no host called pi1" in refused("remove_host", "pi1", "--yes")


def test_active_work_keeps_a_host_and_is_code_3(host: Host) -> None:
    job = request_job("host_facts", host.pk, asker=Asker(Door.COMMAND)).job
    ran = herder("remove_host", "pi1", "--yes")
    assert ran.code == 3
    assert f"job {job.pk} (host_facts)" in ran.err


def test_a_paused_host_refuses_work_until_it_is_resumed(host: Host) -> None:
    ran = herder("pause_host", "pi1", "--reason", "new disk", "--until", "2h")
    assert ran.out.startswith("pi1 is paused until 20")
    assert "pi1 is paused until" in herder("run_job", "host_facts", "--host", "pi1").err
    assert "paused" in herder("hosts").out
    assert herder("pause_host", "pi1", "--resume").out == "pi1 is resumed.\n"
    assert herder("run_job", "host_facts", "--host", "pi1").code == 0


@pytest.mark.parametrize("words", [["--until", "soon"], ["--until", "2026-02-31"], ["--resume", "--reason", "x"]])
def test_a_pause_that_cannot_be_read_is_wrong_use(words: list[str], host: Host) -> None:
    refused("pause_host", "pi1", *words)
    assert not Host.objects.get().paused()


@pytest.mark.parametrize("length", ["9999999d", "9999999 d"])
def test_a_pause_beyond_the_end_of_the_calendar_is_wrong_use(length: str, host: Host) -> None:
    words = refused("pause_host", "pi1", "--until", length)
    assert words == f"{length} from now is beyond the last year there is."
    assert not Host.objects.get().paused()


@pytest.mark.parametrize("moment", ["2020-01-01", "2020-01-01T00:00", "0001-01-01"])
def test_a_pause_that_would_be_over_is_wrong_use(moment: str, host: Host) -> None:
    assert refused("pause_host", "pi1", "--until", moment).endswith("has passed: name a later moment.")


def test_a_pause_tells_what_still_runs(host: Host) -> None:
    request_job("host_facts", host.pk, asker=Asker(Door.COMMAND))
    assert herder("pause_host", "pi1").out == (
        "pi1 is paused until ./herder pause_host pi1 --resume. 1 active job(s) end by themselves.\n"
    )


def test_a_second_pause_replaces_the_first(host: Host) -> None:
    herder("pause_host", "pi1", "--until", "2h", "--reason", "first")
    herder("pause_host", "pi1", "--reason", "x" * 300)
    found = Host.objects.get()
    assert (found.paused_until, found.pause_reason) == (None, "x" * 200)


def test_moments_are_dates_times_or_lengths() -> None:
    now = datetime(2026, 11, 30, 12, tzinfo=UTC)
    assert moment("90m", now) == now + timedelta(minutes=90)
    assert moment("2026-12-24") == timezone.make_aware(datetime(2026, 12, 24))
    assert moment("2026-12-24T18:00") == timezone.make_aware(datetime(2026, 12, 24, 18))
    assert moment("2026-12-24T18:00+01:00") == datetime(2026, 12, 24, 17, tzinfo=UTC)
    with pytest.raises(CommandError):
        moment("tomorrow")


@pytest.mark.parametrize(("text", "seconds"), [("45", 45), ("45s", 45), ("2 h", 7200), ("1d", 86_400), ("3min", 180)])
def test_durations(text: str, seconds: int) -> None:
    assert duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "0", "-1", "2 weeks", "1.5h", "99999999999"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match=r"^$"):
        duration(text)


def test_no_hosts_are_said(db: None) -> None:
    assert herder("hosts").out == "There are no hosts yet: add one with ./herder add_host.\n"


def test_hosts_are_listed_with_their_state(host: Host) -> None:
    make_host("pi2", last_seen=timezone.now() - timedelta(minutes=5))
    make_host("pi3", last_error="The key is refused.", last_error_at=timezone.now())
    rows = herder("hosts").rows
    assert [row[:3] for row in rows[1:]] == [
        ["pi1", "root@192.0.2.1:22", "new"],
        ["pi2", "root@192.0.2.1:22", "ok"],
        ["pi3", "root@192.0.2.1:22", "failing"],
    ]
    assert rows[3][-4:] == ["The", "key", "is", "refused."]


def test_the_json_of_hosts_holds_no_secret(host: Host) -> None:
    add_source(host, "/srv", ["*.tmp"])
    Host.objects.update(sudo_password_sealed="SEALED")
    ran = herder("hosts", "--json")
    (found,) = ran.document
    assert (found["name"], found["sources"][0]["path"], found["paused"]) == ("pi1", "/srv", False)
    assert "SEALED" not in ran.out
    assert "private" not in ran.out
