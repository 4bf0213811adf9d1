"""`hosts`, `generations` and `backup_root` as people and programs read them."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.utils import timezone

from hosts.management.commands import backup_root as roots
from hosts.management.commands.generations import row as generation_row
from hosts.management.commands.hosts import pause_words, state_of
from hosts.models import BackupRoot, Generation, GenerationStatus, Host
from hosts.root_admin import RootView, add_root, notes, view
from hosts.store.root import MARKER
from jobs.management.door import DoorCommand
from tests.commands import command, herder, refused
from tests.factories import make_credential, make_host, make_job
from tests.hosts.rows import make_generation, make_source

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.django_db
LIST_KEYS = {
    "name", "address", "port", "user", "last_seen", "last_error", "last_error_at", "last_backup_at", "bandwidth_kib",
    "before_hook", "after_hook", "hooks_touch_stacks", "keep_last", "keep_daily", "keep_weekly", "keep_monthly",
    "backup_limit_seconds", "jump", "backup_root", "paused", "paused_until", "pause_reason", "host_keys", "sources",
}  # fmt: skip
GENERATION_KEYS = {
    "host", "source", "path", "job", "sequence", "status", "started_at", "finished_at", "files", "bytes",
    "changed_files", "changed_bytes", "rsync_code", "warnings", "fake_super", "kept_at", "kept_note", "verified_at",
    "verified_files", "verified_bytes", "verify_problem",
}  # fmt: skip


def at_width(monkeypatch: pytest.MonkeyPatch, columns: int, name: str, *words: str) -> list[str]:
    """The lines of a command on a terminal of so many columns, without colours."""
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    found, out, _ = command(name)
    assert isinstance(found, DoorCommand)
    monkeypatch.setattr(found.stdout, "isatty", lambda: True)
    found.exit_code(["manage.py", name, *words])
    return out.getvalue().splitlines()


# --- hosts


def cells(**fields: Any) -> list[str]:
    """The one host's line, split at its columns."""
    make_host("pi1", **fields)
    head, line = herder("hosts").out.splitlines()
    starts = [head.index(word) for word in ("host", "address", "state", "seen", "last", "sources")]
    return [line[a:b].strip() for a, b in zip(starts, [*starts[1:], None], strict=True)]


def test_a_new_host_was_never_seen_or_backed_up() -> None:
    assert cells() == ["pi1", "root@192.0.2.1:22", "new", "never", "never", "0"]


def test_times_are_distances() -> None:
    now = timezone.now()
    found = cells(last_seen=now - timedelta(minutes=3, seconds=5), last_backup_at=now - timedelta(hours=26))
    assert found[2:5] == ["ok", "3 min ago", "1 d ago"]


@pytest.mark.parametrize(
    ("fields", "busy", "word"),
    [
        ({}, False, "new"),
        ({"last_seen": timezone.now()}, False, "ok"),
        ({"last_seen": timezone.now()}, True, "busy"),
        ({"last_error_at": timezone.now()}, True, "failing"),
        ({"last_error_at": timezone.now(), "paused_at": timezone.now()}, True, "paused"),
        ({"paused_at": timezone.now(), "paused_until": timezone.now() - timedelta(1)}, False, "new"),
    ],
)
def test_the_state_is_the_one_that_matters_most(fields: dict[str, Any], busy: bool, word: str) -> None:
    assert str(state_of(Host(**fields), busy=busy)) == word


def test_a_host_with_work_is_busy() -> None:
    host = make_host(last_seen=timezone.now())
    make_job("host_facts", host)
    assert " busy " in herder("hosts").out


def test_only_sources_that_are_backed_up_are_counted() -> None:
    host = make_host("pi1")
    make_source(host)
    make_source(host, "/home", enabled=False)
    assert herder("hosts").rows[1][-1] == "1"


def test_why_a_host_fails_and_how_it_is_reached_stand_beside_it() -> None:
    gate = make_host("gate")
    make_host("inner", jump=gate, last_error="It is off.", last_error_at=timezone.now())
    line = herder("hosts").out.splitlines()[2]
    assert " via gate " in line
    assert line.endswith("It is off.")


def test_an_address_with_colons_is_bracketed() -> None:
    make_host("six")
    Host.objects.update(address="2001:db8::1")
    assert "root@[2001:db8::1]:22" in herder("hosts").out


@pytest.mark.parametrize(
    ("fields", "words"),
    [({}, "until resumed"), ({"pause_reason": "new disk"}, "until resumed: new disk")],
)
def test_a_pause_says_until_when(fields: dict[str, Any], words: str) -> None:
    assert pause_words(Host(**fields)) == words


def test_hosts_are_one_document_with_a_known_shape() -> None:
    make_source(make_host("pi1"))
    ran = herder("hosts", "--json")
    (found,) = ran.document
    assert set(found) == LIST_KEYS
    assert set(found["sources"][0]) == {"path", "excludes", "one_file_system", "enabled", "last_good_at"}
    assert (ran.err, found["backup_limit_seconds"], found["jump"]) == ("", 7200.0, None)


def test_no_hosts_are_an_empty_document() -> None:
    assert herder("hosts", "--json").out == "[]\n"


def test_a_narrow_terminal_cuts_no_line_and_keeps_the_whole_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    trouble = "The host key of this machine is another one than was pinned."
    make_host("a-rather-long-name-of-a-host", last_error=trouble, last_error_at=timezone.now())
    lines = at_width(monkeypatch, 100, "hosts")
    assert max(map(len, lines)) <= 100
    folded = "".join(line.split("  ")[-1] for line in lines[1:]).replace(" ", "")
    assert trouble.replace(" ", "") in folded


def test_what_a_host_said_moves_no_cursor() -> None:
    make_host(last_error="\x1b[2J\x1b]0;owned\x07gone\nsecond line", last_error_at=timezone.now())
    out = herder("hosts").out
    assert "\x1b" not in out
    assert out.splitlines()[1].endswith("gone second line")
    assert len(out.splitlines()) == 2


# --- generations


def test_generations_are_one_document_with_a_known_shape() -> None:
    make_generation(make_source(make_host("pi1")))
    (found,) = herder("generations", "pi1", "--json").document
    assert set(found) == GENERATION_KEYS
    assert (found["host"], found["source"], found["status"]) == ("pi1", "/srv/data", "good")


def test_nothing_kept_is_an_empty_document() -> None:
    make_host("pi1")
    assert herder("generations", "pi1", "--json").document == []


def test_generations_are_ordered_by_source_then_newest_first() -> None:
    host = make_host("pi1")
    for path in ("/srv", "/home"):
        source = make_source(host, path)
        for number in (1, 2, 10):
            make_generation(source, number)
    found = [(each["source"], each["sequence"]) for each in herder("generations", "pi1", "--json").document]
    assert found == [(path, number) for path in ("/home", "/srv") for number in (10, 2, 1)]


def test_a_generation_is_found_on_the_disk_by_its_path(tmp_path: Path) -> None:
    made = make_generation(make_source(make_host("pi1")), root=tmp_path)
    (found,) = herder("generations", "pi1", "--json").document
    assert found["path"] == str(made.path) == f"{tmp_path}/pi1/srv-data/{made.folder}"


def notes_of(**fields: Any) -> str:
    made = make_generation(make_source(make_host()), **fields)
    return str(generation_row(made)[-1])


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, ""),
        ({"warnings": ["a"]}, "1 warning"),
        ({"warnings": ["a", "b"]}, "2 warnings"),
        ({"kept_at": timezone.now()}, "kept for ever"),
        ({"kept_at": timezone.now(), "kept_note": "before the move"}, "kept for ever: before the move"),
        ({"kept_note": "an old note"}, ""),
        ({"verify_problem": "a.txt differs", "warnings": ["a"]}, "a.txt differs; 1 warning"),
    ],
)
def test_what_is_noted_of_a_generation(fields: dict[str, Any], words: str) -> None:
    assert notes_of(**fields) == words


def test_a_generation_that_is_being_written_has_its_beginning() -> None:
    made = make_generation(make_source(make_host()), status=GenerationStatus.WRITING, finished_at=None)
    assert str(generation_row(made)[2]).endswith("d ago)")


def test_a_proof_is_told_by_its_age_and_a_failed_one_as_no() -> None:
    made = make_generation(make_source(make_host()), verified_at=timezone.now() - timedelta(hours=5))
    assert str(generation_row(made)[6]) == "5 h ago"
    made.verify_problem = "a.txt differs"
    assert str(generation_row(made)[6]) == "no"


@pytest.mark.parametrize("path", ["/srv/[red]x[/red]", "/srv/:smile:", "/srv/" + "a" * 300])
def test_names_are_printed_as_they_are(path: str) -> None:
    make_generation(make_source(make_host("pi1"), path))
    assert path in herder("generations", "pi1").out


def test_the_whole_note_is_seen_on_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    make_generation(make_source(make_host("pi1")), kept_at=timezone.now(), kept_note="n" * 60)
    lines = at_width(monkeypatch, 140, "generations", "pi1")
    assert max(map(len, lines)) <= 140
    assert sum(line.count("n" * 3) for line in lines) >= 15


# --- keep and release


def test_latest_is_kept_and_the_note_is_cut_to_what_a_row_holds() -> None:
    make_generation(make_source(make_host("pi1")), 4)
    ran = herder("keep_generation", "pi1", "/srv/data/", "latest", "--note", "ü" * 300)
    assert (ran.code, ran.out) == (0, "Generation 4 of pi1:/srv/data is kept for ever.\n")
    assert Generation.objects.get().kept_note == "ü" * 200


def test_release_takes_the_note_away_even_when_one_is_given() -> None:
    make_generation(make_source(make_host("pi1")), kept_at=timezone.now(), kept_note="old")
    ran = herder("keep_generation", "pi1", "/srv/data", "1", "--release", "--note", "new")
    assert ran.out == "Generation 1 of pi1:/srv/data follows the retention rule again.\n"
    assert (Generation.objects.get().kept_at, Generation.objects.get().kept_note) == (None, "")


@pytest.mark.parametrize("status", [GenerationStatus.WRITING, GenerationStatus.DELETING])
def test_only_what_is_good_is_kept(status: GenerationStatus) -> None:
    make_generation(make_source(make_host("pi1")), status=status)
    assert "there are none." in refused("keep_generation", "pi1", "/srv/data", "1")
    assert Generation.objects.get().kept_at is None


# --- backup roots


def shown(**fields: Any) -> list[str]:
    base: dict[str, Any] = {
        "path": "/mnt", "is_default": False, "problem": "", "free_bytes": 5 << 30, "free_inodes": 1234567, "notes": (),
    }  # fmt: skip
    return [str(cell) for cell in roots.row(RootView(**{**base, **fields}))]


def test_a_root_is_a_line_with_its_room() -> None:
    assert shown(is_default=True) == ["/mnt", "default", "ready", "5.0 GiB", "1,234,567 files"]


def test_what_is_unknown_of_a_root_is_not_zero() -> None:
    assert shown(problem="Gone.", free_bytes=None, free_inodes=None)[2:] == ["not usable", "unknown", ""]


def test_a_root_on_a_read_only_place_is_refused_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ran = herder("backup_root", "--add", str(tmp_path / "file"))
    assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)
    assert not BackupRoot.objects.exists()


def test_a_relative_root_is_taken_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "disk").mkdir()
    monkeypatch.chdir(tmp_path)
    herder("backup_root", "--add", "disk")
    assert BackupRoot.objects.get().path == str(tmp_path / "disk")


def test_one_bad_root_is_code_1_and_the_good_one_is_still_listed(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        add_root(tmp_path / name)
    (tmp_path / "a" / MARKER).unlink()
    ran = herder("backup_root", "--json")
    assert ran.code == 1
    assert {each["path"][-1]: each["usable"] for each in ran.document} == {"a": False, "b": True}
    assert ran.err == ""


def test_a_root_that_was_never_probed_has_no_notes() -> None:
    assert notes({}) == ()
    assert notes({"of": "another version"}) == ()


def test_a_root_that_vanished_is_not_usable_and_has_no_numbers(tmp_path: Path) -> None:
    row = BackupRoot.objects.create(path=str(tmp_path / "gone"))
    found = view(row)
    assert (found.free_bytes, found.free_inodes) == (None, None)
    assert "not mounted" in found.problem
    assert make_credential().pk
