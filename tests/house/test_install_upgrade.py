"""The steps of an upgrade and of an uninstall, below a temporary root, with a release that answers from files."""

from __future__ import annotations

import getpass
import json
import os
import stat
from typing import TYPE_CHECKING

import pytest

from piherder.house import inside, install, release, systemd, uninstall, upgrade
from piherder.house.folder import Refused
from piherder.house.inside import Inside
from piherder.house.layout import Layout
from piherder.house.upgrade import Record

if TYPE_CHECKING:
    from pathlib import Path

# Notes what it is asked; answers `herd` with one line of the file `herd` after the other, the last for ever.
PYTHON = """\
#!/bin/sh
echo "$@" >> said
case "$*" in
*" herd") head -n 1 herd; [ "$(wc -l < herd)" -eq 1 ] || sed -i 1d herd ;;
*fail*) echo "first line" >&2; echo "it is broken" >&2; exit 1 ;;
*status*) cat status; exit 1 ;;
*environment*) env; cat ;;
esac
"""
WELL = {
    "database": {"reachable": True},
    "redis": {"reachable": True},
    "nodes": [{"silent_for": 0, "draining": False}],
    "beat": {"holder": "pi", "silent_for": 0.0},
}


def herd(*busy: str, held: bool = False, reason: str = "") -> str:
    return json.dumps({"held": held, "held_by": "ann", "reason": reason, "busy": list(busy)})


@pytest.fixture
def found(tmp_path: Path) -> Inside:
    """An installed release, current below a root of its own."""
    layout = Layout(tmp_path)
    place = layout.code / "1.0-aaaa"
    (place / ".venv/bin").mkdir(parents=True)
    (place / ".venv/bin/python").write_text(PYTHON)
    (place / ".venv/bin/python").chmod(0o755)
    (place / "herd").write_text(f"{herd()}\n")
    layout.settings.parent.mkdir(parents=True)
    layout.settings.write_text("PIHERDER_PORT=8123\n")
    layout.units.mkdir(parents=True)
    release.write(place / release.MARK, "piherder\n\n", 0o644)
    release.switch(layout, place)
    return Inside(layout, place, getpass.getuser())


def said(found: Inside) -> list[str]:
    path = found.release / "said"
    return path.read_text().splitlines() if path.exists() else []


@pytest.fixture(autouse=True)
def _as_ourselves(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no system user here: the stand-in release runs as whoever tests."""
    monkeypatch.setattr(inside, "become", lambda _user: [])
    monkeypatch.setattr(upgrade, "LOOK_SECONDS", 0.01)


# --- asking a release ---------------------------------------------------------------------------------------------


def test_a_command_gets_the_settings_and_nothing_of_root(found: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIHERDER_DATA", "/somewhere/else")
    told = found.run("environment", text="secret on stdin").splitlines()
    assert f"PIHERDER_ENV_FILE={found.layout.settings}" in told
    assert not [line for line in told if line.startswith("PIHERDER_DATA")]
    assert told[-1] == "secret on stdin"
    assert "secret" not in said(found)[0]


def test_a_failure_is_its_last_line(found: Inside) -> None:
    with pytest.raises(Refused, match=r"^manage.py fail failed: it is broken$"):
        found.manage("fail")


def test_status_is_read_although_it_is_not_well(found: Inside) -> None:
    (found.release / "status").write_text(json.dumps(WELL))
    assert found.status() == WELL
    (found.release / "status").write_text("Traceback")
    assert found.status() == {}


def test_what_is_up_is_not_missing() -> None:
    assert inside.missing(WELL) == []
    assert inside.missing({}) == ["the database", "Redis", "a worker", "beat"]


@pytest.mark.parametrize(
    ("part", "value", "missing"),
    [
        ("nodes", [{"silent_for": 3.0, "draining": False}], "a worker"),
        ("nodes", [{"silent_for": 0, "draining": True}], "a worker"),
        ("beat", {"holder": "pi", "silent_for": 4.0}, "beat"),
        ("beat", {"holder": None, "silent_for": 0.0}, "beat"),
        ("redis", {"reachable": False}, "Redis"),
    ],
)
def test_what_is_silent_or_away_is_missing(part: str, value: object, missing: str) -> None:
    assert inside.missing({**WELL, part: value}) == [missing]


def test_a_process_runs_the_release_that_it_stands_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert inside.stands_in(os.getpid(), tmp_path)
    assert not inside.stands_in(os.getpid(), tmp_path.parent)
    assert not inside.stands_in(0, tmp_path)


# --- upgrade ------------------------------------------------------------------------------------------------------


def test_options() -> None:
    assert upgrade.parse([]) == upgrade.Options(60, False, False)
    assert upgrade.parse(["--wait", "5", "--back", "--yes"]) == upgrade.Options(5, True, True)
    with pytest.raises(SystemExit):
        upgrade.parse(["--wait", "-1"])


def test_without_an_installation_there_is_nothing_to_upgrade(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="use sudo make install"):
        upgrade.installed(Layout(tmp_path))


def test_the_herd_is_held_and_released(found: Inside) -> None:
    with upgrade.held(found, "upgrade to 2.0"):
        assert said(found)[-1] == "manage.py hold --reason upgrade to 2.0"
    assert said(found)[-1] == "manage.py release"


def test_a_hold_of_ours_is_released_after_a_failure_too(found: Inside) -> None:
    with pytest.raises(Refused), upgrade.held(found, "upgrade to 2.0"):
        raise Refused("no")
    assert said(found)[-1] == "manage.py release"


def test_when_nothing_runs_the_herd_stays_on_hold(found: Inside) -> None:
    with pytest.raises(upgrade.Stranded), upgrade.held(found, "upgrade to 2.0"):
        raise upgrade.Stranded("these lines go back")
    assert said(found)[-1] == "manage.py hold --reason upgrade to 2.0"


def test_the_first_failure_is_the_one_that_is_told(found: Inside) -> None:
    def fail() -> None:
        found.layout.settings.unlink()  # so that the release cannot be asked any more
        raise Refused("the disk is full")

    with pytest.raises(Refused, match="the disk is full"), upgrade.held(found, "upgrade to 2.0"):
        fail()


def test_a_hold_of_a_person_is_left_alone(found: Inside, capsys: pytest.CaptureFixture[str]) -> None:
    (found.release / "herd").write_text(f"{herd(held=True, reason='holidays')}\n")
    with upgrade.held(found, "upgrade to 2.0"):
        pass
    assert said(found) == ["-m piherder.house herd"]
    assert "on hold already, by ann, and stays so" in capsys.readouterr().out


def test_a_hold_that_a_killed_upgrade_left_is_ours(found: Inside) -> None:
    (found.release / "herd").write_text(f"{herd(held=True, reason='upgrade to 1.9')}\n")
    with upgrade.held(found, "upgrade to 2.0"):
        pass
    assert said(found)[-1] == "manage.py release"


def test_running_jobs_are_waited_for_by_name(found: Inside, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = "job 5 (backup on pi1)", "job 6 (restore on pi2)"
    (found.release / "herd").write_text(f"{herd(one, two)}\n{herd(two)}\n{herd(two)}\n{herd()}\n")
    upgrade.wait_for_jobs(found, 5)
    assert capsys.readouterr().out.splitlines() == [f"Waiting for {one}, {two} …", f"Waiting for {two} …"]


def test_the_wait_ends_and_names_who_was_in_the_way(found: Inside) -> None:
    (found.release / "herd").write_text(f"{herd('job 5 (backup on pi1)')}\n")
    with pytest.raises(Refused, match=r"Still at work after 0 min: job 5 \(backup on pi1\)\. Nothing was changed"):
        upgrade.wait_for_jobs(found, 0)


@pytest.fixture
def unstoppable(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Units of which one does not stop; what is started afterwards, with which further workers."""
    started: list[list[str]] = []

    def refuse(_layout: Layout) -> None:
        raise Refused("piherder-beat.service did not stop in time.")

    monkeypatch.setattr(upgrade, "more_workers", lambda: ["piherder-worker@2.service"])
    monkeypatch.setattr(upgrade, "stop", refuse)
    monkeypatch.setattr(upgrade, "start_all", lambda _layout, more: started.append(more))
    return started


def test_what_was_stopped_before_something_would_not_is_started_again(
    found: Inside, unstoppable: list[list[str]]
) -> None:
    with pytest.raises(Refused, match=r"^Nothing was changed, and .* runs on: piherder-beat\.service did not stop"):
        upgrade.change(found, found)
    assert unstoppable == [["piherder-worker@2.service"]]


def test_what_the_way_back_needs_is_kept_where_only_root_writes(found: Inside) -> None:
    layout = found.layout
    (layout.units / "piherder-web.service").write_text("old\n")
    (layout.units / "piherder-web.service.d").mkdir()
    (layout.units / "other.service").write_text("not ours\n")
    record = Record("1.0-aaaa", "2.0-bbbb", "/var/lib/piherder/upgrades/1/db.sqlite3", "20260101T000000Z")
    folder = upgrade.note(layout, record)
    assert upgrade.records(layout) == [record]
    assert [path.name for path in (folder / "units").iterdir()] == ["piherder-web.service"]
    assert stat.S_IMODE((folder / upgrade.RECORD).stat().st_mode) & 0o022 == 0


def test_going_back_brings_database_units_and_code(found: Inside) -> None:
    layout, web = found.layout, found.layout.units / "piherder-web.service"
    web.write_text("old\n")
    upgrade.note(layout, record := Record(found.release.name, found.release.name, "/copy", "20260101T000000Z"))
    web.write_text("new\n")
    (layout.units / "piherder-later.service").write_text("new\n")
    release.switch(layout, layout.code)
    upgrade.restore(layout, record)
    assert said(found) == ["-m piherder.house restore-database /copy"]
    assert ([path.name for path in layout.units.iterdir()], web.read_text()) == ([web.name], "old\n")
    assert layout.release == found.release


def test_without_a_note_there_is_no_way_back(found: Inside) -> None:
    with pytest.raises(Refused, match=r"no way back from 1.0-aaaa: no upgrade to it is noted"):
        upgrade.back(found.layout, upgrade.Options(yes=True))


def test_without_the_old_release_there_is_no_way_back(found: Inside) -> None:
    upgrade.note(found.layout, Record("0.9", "1.0-aaaa", "/copy", "20260101T000000Z"))
    with pytest.raises(Refused, match="no way back"):
        upgrade.back(found.layout, upgrade.Options(yes=True))


def test_nobody_goes_back_without_a_yes() -> None:
    record = Record("1.0", "2.0", "/copy", "20260101T000000Z")
    with pytest.raises(Refused, match=r"Nothing was changed; .*--back --yes"):
        upgrade.agree(record, yes=False)
    upgrade.agree(record, yes=True)


def test_lines_by_hand_name_everything() -> None:
    record = Record("1.0-a", "2.0-b", "/var/lib/piherder/upgrades/1/db.sqlite3", "20260101T000000Z")
    text = "\n".join(upgrade.by_hand(Layout(), record))
    for words in ("systemctl stop piherder-web.service", f"restore-database {record.copy}", "ln -sfn 1.0-a", "release"):
        assert words in text


def test_the_last_three_notes_stay(found: Inside) -> None:
    for day in range(1, 6):
        upgrade.note(found.layout, Record("0.9", "1.0-aaaa", "/copy", f"2026010{day}T000000Z"))
    upgrade.tidy(found.layout)
    assert [each.at[:8] for each in upgrade.records(found.layout)] == ["20260103", "20260104", "20260105"]


# --- install and uninstall ----------------------------------------------------------------------------------------


def test_settings_are_written_once_and_edits_stay(found: Inside) -> None:
    from piherder.house.accounts import Account
    from piherder.house.choice import Wish

    plan = install.Plan(found.layout, Wish(), found.settings, {"PIHERDER_PORT": "9000"})
    found.layout.settings.write_text("# mine\nPIHERDER_PORT=8123\nTZ=Europe/Berlin\n")
    install.write_settings(plan, Account(os.geteuid(), os.getegid()))
    assert found.layout.settings.read_text() == "# mine\nPIHERDER_PORT=9000\nTZ=Europe/Berlin\n"
    assert stat.S_IMODE(found.layout.settings.stat().st_mode) == 0o640


def test_units_are_written_when_they_change_and_not_again(found: Inside) -> None:
    first = install.write_units(found.layout, found.settings)
    assert "piherder-worker.service" in first
    assert install.write_units(found.layout, found.settings) == []
    changed = install.write_units(found.layout, {"PIHERDER_DRAIN_GRACE_SEC": "300"})
    assert changed == ["piherder-worker.service", "piherder-worker@.service"]


def test_the_command_is_linked_and_a_strangers_file_stays(found: Inside, capsys: pytest.CaptureFixture[str]) -> None:
    layout = found.layout
    install.link_command(layout)
    install.link_command(layout)
    assert os.readlink(layout.link) == str(layout.current / "herder")
    layout.link.unlink()
    layout.link.write_text("another tool")
    install.link_command(layout)
    assert "is not ours and stays" in capsys.readouterr().out
    assert layout.link.read_text() == "another tool"


def test_the_first_login_is_shown_even_when_the_rest_fails(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Refused), install.shown_anyway("pass-word"):
        raise Refused("no")
    assert capsys.readouterr().out == "User admin, password pass-word (shown once, never again)\n"


def test_the_farewell_ends_with_the_address_or_a_warning(found: Inside) -> None:
    assert install.farewell(found, "pw")[-3] == "PiHerder is up at http://127.0.0.1:8123/"
    found.layout.settings.write_text("PIHERDER_BIND=0.0.0.0\n")
    assert install.farewell(found, "")[-1].startswith("Others can reach the pages, and nothing encrypts them")


def test_what_is_found_is_said(found: Inside) -> None:
    from piherder.house.choice import Wish

    settings = {"PIHERDER_DATA": str(found.layout.root / "d"), "PIHERDER_BACKUPS": str(found.layout.root / "b")}
    first, second = install.describe(install.Plan(found.layout, Wish(), settings, {"PIHERDER_PORT": "9"}), None)
    assert first == f"Found and kept: settings in {found.layout.settings}, the release 1.0-aaaa."
    assert second == "Settings that change: PIHERDER_PORT."


def test_a_machine_that_does_not_fit_is_told_and_left(capsys: pytest.CaptureFixture[str]) -> None:
    # What runs these tests has no systemd as process 1, or it is no root: either way nothing may begin.
    begun: list[int] = []
    code = install.guarded("install", lambda: begun.append(1))
    said_there = capsys.readouterr().err
    assert (code, begun, len(said_there.splitlines())) in [(1, [], 1), (0, [1], 0)]


def test_purge_needs_the_words_typed(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="Nothing was removed"):
        uninstall.agree([tmp_path], uninstall.Options(purge=True))
    uninstall.agree([tmp_path], uninstall.Options(purge=True, agreed=True))


def test_purge_names_what_is_there_alone(found: Inside) -> None:
    layout = found.layout
    assert uninstall.doomed(layout, {}) == [layout.settings.parent]
    layout.data.mkdir(parents=True)
    assert uninstall.doomed(layout, {}) == [layout.data, layout.settings.parent]


def test_the_program_goes_and_a_strangers_command_stays(found: Inside) -> None:
    layout = found.layout
    layout.link.parent.mkdir(parents=True)
    layout.link.write_text("another tool")
    uninstall.remove_program(layout)
    assert not layout.code.exists()
    assert layout.link.exists()


def test_where_nothing_is_it_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    uninstall.uninstall(Layout(tmp_path), uninstall.Options())
    assert capsys.readouterr().out == "No PiHerder is installed here.\n"


def test_a_systemd_that_is_away_stops_an_uninstall_before_files_go(
    found: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    (found.layout.units / "piherder-web.service").touch()
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(Refused, match="systemd does not answer"):
        uninstall.uninstall(found.layout, uninstall.Options())
    assert (found.layout.units / "piherder-web.service").exists()
    assert systemd.units("") == []
