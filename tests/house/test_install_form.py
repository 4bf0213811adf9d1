"""Which form an installation has, what its supervisor says, and which program a unit starts."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from piherder import env
from piherder.house import folder, form, release, serve, stack, systemd
from piherder.house.folder import CLONE, State
from piherder.house.processes import wait_until
from piherder.house.servers import ping

SHOWN = """\
MainPID=353
NRestarts=2
ExecMainStatus=0
Id=piherder-web.service
LoadState=loaded
ActiveState=active
SubState=running
UnitFileState=enabled

MainPID=0
NRestarts=7
ExecMainStatus=78
Id=piherder-worker.service
LoadState=loaded
ActiveState=activating
SubState=auto-restart
UnitFileState=enabled

Id=piherder.target
LoadState=loaded
ActiveState=inactive
SubState=dead
UnitFileState=disabled

Id=piherder-redis.service
LoadState=not-found
ActiveState=inactive
SubState=dead
UnitFileState=
"""
# Answers as systemctl does: `show` from a file, no instance of a template.
SYSTEMCTL = '#!/bin/sh\ncase "$3" in show) cat "$(dirname "$0")/shown" ;; list-units) : ;; *) exit 1 ;; esac\n'
WEB = systemd.Unit("piherder-web.service", True, "active", "running", 353, 2, 0, True)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A release folder, on a machine whose systemctl answers `SHOWN`."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/systemctl").write_text(SYSTEMCTL)
    (tmp_path / "bin/systemctl").chmod(0o755)
    (tmp_path / "bin/shown").write_text(SHOWN)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.defpath}:/usr/bin:/bin")
    place = tmp_path / "1.2-abc"
    place.mkdir()
    (place / release.MARK).write_text("piherder\n/etc/piherder/piherder.env\n")
    return place


def test_units_are_read() -> None:
    web, worker, target, redis = systemd.units(SHOWN)
    assert web == WEB
    assert (worker.pid, worker.status, worker.active) == (0, 78, False)
    assert (target.enabled, redis.loaded) == (False, False)
    assert systemd.units("") == []


def test_units_in_words() -> None:
    assert WEB.words == "active, restarted 2 times"
    assert replace(WEB, restarts=1).words == "active, restarted once"
    assert replace(WEB, restarts=0).words == "active"
    assert replace(WEB, state="failed", detail="exit-code", restarts=0).words == "failed (exit-code)"


def test_a_systemd_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(folder.Refused, match="systemd does not answer"):
        systemd.show(["piherder-web.service"])


def test_a_refusal_of_systemctl_is_passed_on(installed: Path) -> None:
    with pytest.raises(folder.Refused, match=r"systemctl enable x failed: no reason given"):
        systemd.call("enable", "x")


def test_an_installed_one_tells_each_service(installed: Path) -> None:
    found = form.look(installed)
    assert (found.kind, found.release) == ("installed", "1.2-abc")
    assert found.start == "sudo systemctl start piherder.target"
    assert found.programs["piherder-web.service"] == "active, restarted 2 times"
    assert "piherder-redis.service" not in found.programs


def test_what_does_not_run_is_a_problem_in_words(installed: Path) -> None:
    worker, target, boot = form.look(installed).problems
    assert worker.startswith("piherder-worker.service does not start, because a worker of the same name")
    assert target.startswith("piherder.target does not run (inactive, dead): journalctl -u piherder.target")
    assert boot == "piherder.target is not started at boot: sudo systemctl enable piherder.target."


def test_without_systemd_that_is_the_problem(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert form.look(installed).problems == ["systemd does not answer: look at systemctl status."]


def test_a_clone_tells_about_make_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("PIHERDER_CONTAINER", raising=False)
    monkeypatch.setenv("PIHERDER_DATA", str(tmp_path))
    assert form.look().words == f"clone {CLONE}, make run is not running"
    found = form.from_clone(CLONE, State(42, "http://x/", {"web": 43}, {"web": 0, "worker": 3}))
    assert found.words == f"clone {CLONE}, make run is process 42"
    assert found.programs == {"web": "process 43", "worker": "restarting"}


def test_a_container_tells_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIHERDER_CONTAINER", "1")
    found = form.look()
    assert found.kind == "container"
    assert found.words.endswith(f"version {release.version()}")


def test_a_backup_root_that_services_cannot_see_is_a_problem(installed: Path) -> None:
    found = form.look(installed)
    problems = form.hidden_roots(found, ["/home/pi/usb", "/mnt/usb", "/homestead", "/root/x"])
    assert [line.split()[3] for line in problems] == ["/home/pi/usb", "/root/x"]
    assert form.hidden_roots(replace(found, kind="clone"), ["/home/pi/usb"]) == []


def test_a_clone_has_no_services() -> None:
    assert not form.services_run()


# --- what a unit starts -------------------------------------------------------------------------------------------


def test_the_pages_are_served_where_the_settings_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIHERDER_BIND", "::1")
    monkeypatch.setenv("PIHERDER_PORT", "8123")
    words = serve.command("web")
    assert words[words.index("--bind") + 1] == "[::1]:8123"


def test_a_port_that_is_none_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIHERDER_PORT", "http")
    with pytest.raises(env.BadEnvironment, match="PIHERDER_PORT"):
        serve.command("web")


@pytest.mark.parametrize(
    ("node", "name", "expected"),
    [("", "", "celery@%h"), ("", "2", "celery@%h-2"), ("shed", "", "celery@shed"), ("shed", "2", "celery@shed-2")],
)
def test_workers_are_told_apart(monkeypatch: pytest.MonkeyPatch, node: str, name: str, expected: str) -> None:
    monkeypatch.setenv("PIHERDER_NODE", node)
    assert serve.command("worker", name)[-1] == expected


def test_beat_is_the_one_of_the_stack() -> None:
    assert serve.command("beat") == stack.beat_command()


def test_redis_serves_the_data_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PIHERDER_DATA", str(tmp_path))
    assert serve.command("redis")[-1] == str(tmp_path / "redis/redis.conf")
    assert (tmp_path / "redis/address").read_text() == f"unix://{tmp_path}/redis/redis.sock\n"


def test_names_of_the_moment_are_added_to_those_of_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIHERDER_HOSTS", "herder.lan")
    monkeypatch.setenv("PIHERDER_BIND", "192.0.2.7")
    found = serve.environment()["PIHERDER_HOSTS"].split()
    assert found[0] == "herder.lan"
    assert found[-1] == "192.0.2.7"


def test_the_process_becomes_the_program(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "piherder.house", "serve", "redis"]
    environment = env.child_environment(PIHERDER_DATA=str(tmp_path))
    with subprocess.Popen(words, cwd=CLONE, env=environment, stdout=subprocess.DEVNULL) as process:
        try:
            assert wait_until(lambda: ping(tmp_path / "redis/redis.sock"), 30)
            assert "server" in Path(f"/proc/{process.pid}/comm").read_text()
        finally:
            process.terminate()


def test_settings_that_cannot_be_used_end_it_in_one_sentence(tmp_path: Path) -> None:
    environment = env.child_environment(PIHERDER_DATA=str(tmp_path), PIHERDER_PORT="http")
    words = [sys.executable, "-m", "piherder.house", "serve", "web"]
    done = subprocess.run(words, cwd=CLONE, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, "PIHERDER_PORT must be a whole number, not 'http'.\n")
