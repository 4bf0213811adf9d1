"""`make run`: command line, commands and environment of the stack, and the whole thing once for real."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from piherder import env
from piherder.house import folder, run, stack
from piherder.house.folder import CLONE
from piherder.house.ports import answers, free_port
from piherder.house.processes import is_alive, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator


def options(bind: str = "127.0.0.1", port: int = 8000) -> stack.Options:
    return stack.Options(Path("/data"), bind, port)


def test_listens_on_loopback_unless_told_otherwise() -> None:
    found = run.parse([])
    assert (found.bind, found.port, found.is_loopback) == ("127.0.0.1", 8000, True)
    assert run.parse(["--bind", "0.0.0.0", "--port", "80", "--yes"]).port == 80


@pytest.mark.parametrize("wrong", [["--port", "0"], ["--port", "65536"], ["--port", "x"], ["--nonsense"]])
def test_wrong_use_ends_with_2(wrong: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run.parse(wrong)
    assert ended.value.code == 2


@pytest.mark.parametrize(
    ("bind", "loopback", "address", "own"),
    [
        ("127.0.0.1", True, "127.0.0.1:8000", "127.0.0.1"),
        ("127.0.0.2", True, "127.0.0.2:8000", "127.0.0.2"),
        ("::1", True, "[::1]:8000", "::1"),
        ("0.0.0.0", False, "0.0.0.0:8000", "127.0.0.1"),
        ("::", False, "[::]:8000", "::1"),
        ("192.0.2.7", False, "192.0.2.7:8000", "192.0.2.7"),
    ],
)
def test_addresses(bind: str, loopback: bool, address: str, own: str) -> None:
    found = options(bind)
    assert (found.is_loopback, found.socket_address, found.own_address) == (loopback, address, own)


@pytest.mark.parametrize(
    ("bind", "expected"),
    [
        ("192.0.2.7", ["pi", "pi.local", "192.0.2.7"]),
        ("0.0.0.0", ["pi", "pi.local", "192.0.2.7"]),
        ("::", ["pi", "pi.local", "192.0.2.7", "[2001:db8::7]"]),
    ],
)
def test_a_browser_may_name_the_machine_as_it_is_reached(bind: str, expected: list[str]) -> None:
    assert stack.own_names(bind, "pi", ["192.0.2.7", "2001:db8::7"]) == expected


def test_the_callers_servers_are_never_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_URL", "redis://elsewhere/0")
    monkeypatch.setenv("DATABASE_URL", "postgresql://elsewhere/db")
    found = stack.environment(stack.Options(Path("/a b%")), "unix:///s")
    assert found["REDIS_URL"] == "unix:///s"
    assert found["DATABASE_URL"] == "sqlite:////a%20b%25/db.sqlite3"
    assert found["PIHERDER_DATA"] == "/a b%"


def test_odd_folder_names_arrive_in_the_database_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", stack.environment(stack.Options(Path("/a b%#?")), "unix:///s")["DATABASE_URL"])
    assert env.database().name == "/a b%#?/db.sqlite3"


def test_the_worker_is_named_by_the_person_where_two_share_a_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PIHERDER_NODE", raising=False)
    assert stack.worker_command()[-2:] == ("-n", "celery@%h")
    monkeypatch.setenv("PIHERDER_NODE", "second")
    monkeypatch.setenv("CELERY_CONCURRENCY", "3")
    assert stack.worker_command()[-4:] == ("--concurrency", "3", "-n", "celery@second")


def test_programs_are_those_of_the_virtual_environment() -> None:
    commands = (stack.web_command(options()), stack.worker_command(), stack.beat_command())
    assert all(Path(command[0]).parent == Path(sys.executable).parent for command in commands)
    assert "--no-control-socket" in commands[0]


def test_the_tunnel_names_the_address_that_ssh_came_in_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSH_CONNECTION", "192.0.2.9 50000 192.0.2.7 22")
    monkeypatch.setenv("SUDO_USER", "pat")
    assert run.tunnel(8080) == "ssh -L 8080:127.0.0.1:8080 pat@192.0.2.7"


def test_the_tunnel_comes_last_on_loopback_and_never_otherwise() -> None:
    assert run.farewell(options())[-1].strip().startswith("ssh -L 8000:127.0.0.1:8000 ")
    assert not any("ssh -L" in line for line in run.farewell(options("0.0.0.0")))
    assert "encrypt" in run.farewell(options("0.0.0.0"))[-1]


def test_the_password_is_shown_at_the_first_start_only() -> None:
    assert "\n".join(run.first_login("s3cret")).count("s3cret") == 1
    assert run.first_login("") == []


def test_the_password_is_shown_also_when_the_start_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_words: object, **_options: object) -> str:
        raise folder.Refused("The backup root cannot be made.")

    monkeypatch.setattr(run, "prepare_database", lambda _environment: "s3cret")
    monkeypatch.setattr(run, "manage", fail)
    with pytest.raises(folder.Refused):
        run.serve(options(), SimpleNamespace(url="redis://127.0.0.1:1"))  # type: ignore[arg-type]  # it is never asked
    assert "password s3cret (shown once" in capsys.readouterr().out


def test_a_failing_command_is_quoted_in_one_line() -> None:
    code = "import sys; print('noise', file=sys.stderr); sys.exit('the reason')"
    with pytest.raises(folder.Refused, match=r"failed: the reason$"):
        run.manage(env.child_environment(), "-c", code)


class Running:
    """A real `make run` on a folder of its own."""

    def __init__(self, data: Path) -> None:
        self.data, self.port = data, free_port()
        self.process = self.launch(self.port)
        self.lines: list[str] = []

    def launch(self, port: int, data: Path | None = None) -> subprocess.Popen[str]:
        environment = env.child_environment(PIHERDER_DATA=str(data or self.data), PIHERDER_DRAIN_GRACE_SEC="1")
        command = [sys.executable, "-m", "piherder.house", "run", "--port", str(port)]
        return subprocess.Popen(
            command, env=environment, cwd=CLONE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def read_until(self, pattern: str) -> str:
        """Reads what it says up to a line that matches; the output ends when the process does."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)
            if re.search(pattern, line):
                return line
        raise AssertionError("".join(self.lines))

    def programs(self) -> dict[str, int]:
        found: dict[str, int] = json.loads(folder.state_path(self.data).read_text())["programs"]
        return found

    def refusal(self, port: int) -> str:
        second = self.launch(port)
        said, _ = second.communicate(timeout=20)
        assert second.returncode == 1
        return said

    def close(self) -> None:
        """Ends what a failed test left."""
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One stack, started for the first time, for all tests that leave it running; stopped in order at the end."""
    stack_ = Running(tmp_path_factory.mktemp("run") / "data")
    try:
        stack_.read_until(r"ssh -L")
        yield stack_
        pids = stack_.programs()
        stack_.process.send_signal(signal.SIGTERM)
        assert stack_.process.wait(30) == 0
        assert not any(map(is_alive, pids.values()))
        assert not answers("127.0.0.1", stack_.port)
    finally:
        stack_.close()


def test_the_first_start_shows_password_and_backup_root(running: Running) -> None:
    said = "".join(running.lines)
    assert re.search(r"User admin, password \S{10,}", said)
    assert f"Backups go to {running.data}/backups" in said
    assert "Schedules: Retention, Host facts, Verify backups" in said
    assert answers("127.0.0.1", running.port)


def test_a_second_stack_on_the_same_data_is_refused(running: Running) -> None:
    assert f"already runs on {running.data}" in running.refusal(free_port())


def test_a_stack_on_a_taken_port_is_refused(running: Running, tmp_path: Path) -> None:
    other = running.launch(running.port, tmp_path / "other")
    said, _ = other.communicate(timeout=20)
    assert f"Port {running.port} on 127.0.0.1 is taken by gunicorn (process " in said


@pytest.mark.parametrize("name", ["web", "worker", "beat", "redis"])
def test_a_killed_program_comes_back(running: Running, name: str) -> None:
    first = running.programs()[name]
    os.kill(first, signal.SIGKILL)
    running.read_until(f"{name} was ended by SIGKILL; starting it again")
    assert wait_until(lambda: running.programs().get(name, first) != first, 10)
    assert wait_until(lambda: answers("127.0.0.1", running.port), 60)  # the other tests need the pages


def test_no_secret_is_in_a_log_or_an_argument(running: Running) -> None:
    password = re.findall(r"password (\S+)", "".join(running.lines))[0].encode()
    processes = [Path(f"/proc/{pid}") for pid in running.programs().values() if is_alive(pid)]
    texts = [path.read_bytes() for path in (running.data / "log").iterdir()]
    texts += [(process / part).read_bytes() for process in processes for part in ("cmdline", "environ")]
    assert not any(password in text for text in texts)


def test_only_the_owner_can_read_the_data(running: Running) -> None:
    assert [p for p in running.data.rglob("*") if p.lstat().st_mode & 0o077 and not p.is_symlink()] == []


def test_a_stack_killed_as_a_whole_leaves_no_process(tmp_path: Path) -> None:
    stack_ = Running(tmp_path)
    try:
        stack_.read_until(r"ssh -L")
        pids = stack_.programs()
        stack_.process.kill()
        assert wait_until(lambda: not any(map(is_alive, pids.values())), 10)
        assert wait_until(lambda: not answers("127.0.0.1", stack_.port), 10)
    finally:
        stack_.close()


def test_servers_that_are_passed_over_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://elsewhere/db")
    monkeypatch.setenv("REDIS_URL", " ")
    (line,) = run.passed_over()
    assert line.startswith("DATABASE_URL is set and passed over")
    assert "elsewhere" not in line  # it may hold a password
    monkeypatch.delenv("DATABASE_URL")
    assert run.passed_over() == []
