"""`edit_host`: every change together or none, odd values in words, and what a moved schedule means."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from django.utils import timezone
from django_celery_beat.models import PeriodicTask

from hosts.enrol import add_source, backup_schedule
from hosts.host_keys import generate_key
from hosts.models import Credential, Host, Source
from hosts.vault import seal, unseal
from jobs.timetable import timetable
from tests.commands import Ran, herder, refused
from tests.factories import make_host
from tests.hosts.rows import make_generation
from tests.terminal import pipes

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_django import Settings

pytestmark = pytest.mark.django_db


@pytest.fixture
def host(db: None) -> Host:
    return make_host("pi1")


def edit(*words: str) -> Ran:
    ran = herder("edit_host", "pi1", *words)
    assert (ran.code, ran.err) == (0, ""), ran
    return ran


# --- all or none


@pytest.mark.parametrize(
    "slip",
    [
        ("--cron", "1 2 3"),
        ("--cron", "0 99 * * *"),
        ("--cron", "0 4 * * *", "--zone", "Nowhere/Land"),
        ("--remove-source", "/nowhere"),
        ("--accept-shrink", "/nowhere"),
        ("--source", "/proc/1"),
        ("--source", "relative"),
        ("--key", "/nowhere"),
        ("--keep-last", "0"),
        ("--jump", "nobody"),
        ("--backup-root", "/nowhere"),
    ],
)
def test_one_slip_among_several_changes_changes_nothing(slip: tuple[str, ...], host: Host) -> None:
    refused("edit_host", "pi1", "--port", "2222", "--source", "/srv", *slip)
    assert Host.objects.get().port == 22
    assert not Source.objects.exists()
    assert not PeriodicTask.objects.exists()


def test_a_key_that_does_not_open_takes_the_other_changes_back(host: Host, tmp_path: Path) -> None:
    (tmp_path / "id").write_text(generate_key("new")[0])
    ran = herder("edit_host", "pi1", "--address", "127.0.0.1", "--port", "1", "--key", str(tmp_path / "id"))
    assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)
    assert (Host.objects.get().port, Credential.objects.count()) == (22, 1)


def test_a_host_that_cannot_be_asked_for_its_key_keeps_its_pins(host: Host) -> None:
    host.keys.create(key_type="ssh-ed25519", public="AAAA", fingerprint="SHA256:old")
    ran = herder("edit_host", "pi1", "--address", "127.0.0.1", "--port", "1", "--repin", "--trust-first-key")
    assert ran.code == 1
    assert "cannot be reached" in ran.err
    assert host.keys.get().fingerprint == "SHA256:old"


# --- values


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--bandwidth", "-1"),
        ("--bandwidth", "99999999999999999999"),
        ("--keep-daily", "-1"),
        ("--keep-weekly", "99999999999999999999"),
        ("--port", "65536"),
        ("--port", "-22"),
    ],
)
def test_a_number_out_of_bounds_names_its_field(option: str, value: str, host: Host) -> None:
    field = option.removeprefix("--").split("-")[0]
    words = refused("edit_host", "pi1", option, value)
    assert words.startswith(field)
    assert "Ensure this value is" in words


@pytest.mark.parametrize("value", ["two", "1.5", "", "0x10"])
def test_what_is_no_number_is_wrong_use(value: str, host: Host) -> None:
    assert refused("edit_host", "pi1", "--port", value).startswith("Argument --port: invalid int value")


@pytest.mark.parametrize("option", ["--address", "--user"])
def test_a_field_that_must_not_be_blank(option: str, host: Host) -> None:
    assert refused("edit_host", "pi1", option, "") == f"{option[2:]}: This field cannot be blank."


def test_an_address_longer_than_any_name_is_refused(host: Host) -> None:
    assert "at most 255 characters" in refused("edit_host", "pi1", "--address", "a" * 256)


def test_a_flag_alone_is_a_change(host: Host) -> None:
    Host.objects.update(hooks_touch_stacks=True)
    edit("--no-hooks-touch-stacks")
    assert not Host.objects.get().hooks_touch_stacks


def test_forgetting_the_sudo_password_alone_is_a_change(host: Host) -> None:
    Host.objects.update(sudo_password_sealed=seal("old"))
    edit("--no-sudo-password")
    assert Host.objects.get().sudo_password_sealed == ""


def test_no_limit_is_a_value_like_others(host: Host) -> None:
    Host.objects.update(bandwidth_kib=500)
    edit("--bandwidth", "0")
    assert Host.objects.get().bandwidth_kib == 0


def test_a_hook_may_be_of_several_lines_and_scripts(host: Host) -> None:
    hook = "set -e\necho 'grün'; docker stop db"
    edit("--before-hook", hook)
    assert Host.objects.get().before_hook == hook


def test_a_sudo_password_is_in_no_output(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    pipes(monkeypatch, "PLANTED\n")
    ran = edit("--sudo-password-stdin")
    assert "PLANTED" not in ran.out + ran.err
    assert unseal(Host.objects.get().sudo_password_sealed) == "PLANTED"


def test_an_empty_sudo_password_is_wrong_use_and_keeps_the_old_one(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    Host.objects.update(sudo_password_sealed=seal("old"))
    pipes(monkeypatch, "\n")
    assert refused("edit_host", "pi1", "--sudo-password-stdin").startswith("Standard input holds no password")
    assert unseal(Host.objects.get().sudo_password_sealed) == "old"


def test_storing_and_forgetting_a_password_exclude_each_other(host: Host) -> None:
    words = refused("edit_host", "pi1", "--sudo-password-stdin", "--no-sudo-password")
    assert "not allowed with argument" in words


# --- sources


def test_excludes_of_new_sources_leave_the_old_ones_alone(host: Host) -> None:
    add_source(host, "/home", ["*.iso"])
    edit("--source", "/srv", "--exclude", "*.tmp", "--exclude", "/cache/")
    found = dict(host.sources.values_list("path", "excludes"))
    assert found == {"/home": ["*.iso"], "/srv": ["*.tmp", "/cache/"]}


def test_excludes_without_a_new_source_are_those_of_all(host: Host) -> None:
    add_source(host, "/home", ["*.iso"])
    add_source(host, "/srv")
    edit("--exclude", "*.tmp")
    assert [source.excludes for source in host.sources.all()] == [["*.tmp"], ["*.tmp"]]


def test_excludes_are_taken_as_they_are(host: Host) -> None:
    add_source(host, "/srv")
    patterns = ["- *", "a b", "[x]", "grün/**", "$(reboot)"]
    edit(*(word for pattern in patterns for word in ("--exclude", pattern)))
    assert Source.objects.get().excludes == patterns


@pytest.mark.parametrize("path", ["/srv/a b", "/srv/grün", "/srv/it's", "/srv/-rf", "/srv/$(x)", "/srv/100%"])
def test_odd_folders_are_added_and_found_again(path: str, host: Host) -> None:
    edit("--source", path)
    edit("--accept-shrink", path)
    assert Source.objects.get().accept_shrink
    edit("--remove-source", f"{path}/")
    assert not Source.objects.exists()


@pytest.mark.parametrize("path", ["/srv/*", "/srv/a\nb", "/srv/x ", "/", "/usr/bin", "", "/srv/../etc"])
def test_folders_that_must_not_be_sources(path: str, host: Host) -> None:
    refused("edit_host", "pi1", "--source", path)
    assert not Source.objects.exists()


def test_a_source_that_is_let_go_says_what_stays(host: Host) -> None:
    make_generation(add_source(host, "/srv"))
    assert "/srv is not backed up any more; its generations stay.\n" in edit("--remove-source", "/srv").out
    add_source(host, "/home")
    assert "/home is not backed up any more.\n" in edit("--remove-source", "/home").out


def test_a_source_that_comes_back_keeps_its_line_of_generations(host: Host) -> None:
    kept = make_generation(add_source(host, "/srv", ["*.tmp"]))
    edit("--remove-source", "/srv")
    edit("--source", "/srv")
    source = Source.objects.get()
    assert (source.enabled, source.excludes, source.generations.get()) == (True, ["*.tmp"], kept)


# --- the schedule


def due() -> datetime:
    """When the host is backed up next, without its place in the spread, seen from a winter's noon."""
    PeriodicTask.objects.update(date_changed=datetime(2026, 11, 30, 12, tzinfo=UTC), kwargs='{"kind": "backup"}')
    (entry,) = timetable(datetime(2026, 11, 30, 12, tzinfo=UTC))
    assert entry.next_due
    return entry.next_due


def test_a_moved_schedule_is_due_at_its_new_time_in_its_zone(host: Host) -> None:
    backup_schedule(host)
    assert due() == datetime(2026, 12, 1, 2, 30, tzinfo=UTC)
    edit("--cron", "15 4 * * *", "--zone", "Europe/Berlin")
    assert due() == datetime(2026, 12, 1, 3, 15, tzinfo=UTC)


def test_without_a_zone_it_is_that_of_the_herder(host: Host, settings: Settings) -> None:
    settings.TIME_ZONE = "America/New_York"  # Django forgets the zone it had, then and afterwards
    edit("--cron", "0 1 * * *")
    assert str(PeriodicTask.objects.get().crontab.timezone) == "America/New_York"


def test_a_weekly_schedule_names_its_day(host: Host) -> None:
    edit("--cron", "0 5 * * sun")
    assert due() == datetime(2026, 12, 6, 5, tzinfo=UTC)


def test_a_host_without_a_schedule_gets_one(host: Host) -> None:
    edit("--cron", "0 5 * * *")
    row = PeriodicTask.objects.get()
    assert (row.name, row.enabled) == ("Backup of pi1", True)


def test_a_schedule_that_is_off_is_switched_on_by_moving_it(host: Host) -> None:
    backup_schedule(host)
    PeriodicTask.objects.update(enabled=False)
    edit("--cron", "0 5 * * *")
    assert PeriodicTask.objects.get().enabled


def test_the_schedule_of_another_host_stays(host: Host) -> None:
    other = backup_schedule(make_host("pi2"))
    edit("--cron", "0 5 * * *")
    other.refresh_from_db()
    assert other.crontab.hour == "2"


def test_a_longer_limit_is_read_as_a_length(host: Host) -> None:
    edit("--backup-limit", "6h")
    assert Host.objects.get().backup_limit == timedelta(hours=6)


def test_a_removed_host_is_not_edited(host: Host) -> None:
    Host.objects.update(removed_at=timezone.now())
    assert refused("edit_host", "pi1", "--port", "1") == (
        "There is no host called pi1: add one with ./herder add_host."
    )
