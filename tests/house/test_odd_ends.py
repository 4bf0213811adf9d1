"""What a supervisor, its servers and its folder meet on odd machines: strange exits, old files, strange names."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import redis
from kombu import Connection

from piherder import env
from piherder.house import folder, ports, processes
from piherder.house.folder import Refused, State
from piherder.house.servers import PrivateRedis, configuration, quoted
from piherder.house.supervisor import Program, describe_end

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAM = Program("beat", ("true",), {}, Path("/"), refusals={78: "Named twice."})


# --- exits -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, "beat ended with exit code 0; starting it again in 0.5 s."),
        (1, "beat ended with exit code 1; starting it again in 0.5 s."),
        (-9, "beat was ended by SIGKILL; starting it again in 0.5 s."),
        (-11, "beat was ended by SIGSEGV; starting it again in 0.5 s."),
        (-35, "beat was ended by signal 35; starting it again in 0.5 s."),  # a real-time signal has no name
    ],
)
def test_every_end_is_told(code: int, words: str) -> None:
    assert describe_end(PROGRAM, code, 0.5) == words


def test_a_refusal_is_told_in_its_own_words() -> None:
    assert describe_end(PROGRAM, 78, 60) == "Named twice. Next try in 60 s."


def test_a_program_that_is_not_there_ends_at_once(tmp_path: Path) -> None:
    process = processes.spawn(["/no/such/program"], tmp_path / "log", env.child_environment(), tmp_path)
    assert process.wait(10) == 127
    assert "no/such/program" in processes.tail(tmp_path / "log")


def test_a_signal_to_a_group_that_is_gone_is_silent(tmp_path: Path) -> None:
    process = processes.spawn(["true"], tmp_path / "log", env.child_environment(), tmp_path)
    process.wait(10)
    processes.signal_group(process, signal.SIGTERM)
    assert processes.end(process, grace=1) == 0


def test_a_zombie_is_not_alive() -> None:
    with subprocess.Popen(["true"]) as process:
        assert processes.wait_until(lambda: not processes.is_alive(process.pid), 10)


def test_nobody_has_no_children() -> None:
    assert processes.children(2**22 + 1) == []
    assert not processes.is_alive(2**22 + 1)


# --- logs --------------------------------------------------------------------------------------------------------


def test_the_tail_of_no_log_says_so(tmp_path: Path) -> None:
    assert processes.tail(tmp_path / "log") == "no log"


def test_the_tail_of_a_log_that_is_no_text_can_be_shown(tmp_path: Path) -> None:  # case G08
    (tmp_path / "log").write_bytes(b"one\n\xff\xfe two \n\n three\n")
    assert processes.tail(tmp_path / "log") == "\ufffd\ufffd two /  / three"


def test_a_log_that_is_capped_keeps_its_end_beside_it(tmp_path: Path) -> None:  # case H29
    log = tmp_path / "log"
    log.write_bytes(b"a" * 90 + b"the end")
    processes.cap(log, 50)
    assert (log.stat().st_size, (tmp_path / "log.1").read_bytes()[-7:]) == (0, b"the end")
    assert (tmp_path / "log.1").stat().st_size == 50


def test_capping_what_is_not_there_is_nothing(tmp_path: Path) -> None:
    processes.cap(tmp_path / "log", 5)
    assert list(tmp_path.iterdir()) == []


# --- the state ---------------------------------------------------------------------------------------------------


def test_a_state_that_a_later_version_wrote_can_be_read(tmp_path: Path) -> None:
    with folder.only_one(tmp_path):
        raw = {"supervisor": 1, "address": "http://x/", "programs": {}, "restarts": {}, "moon": "full"}
        folder.state_path(tmp_path).write_text(json.dumps(raw))
        assert folder.read_state(tmp_path) == State(1, "http://x/")


@pytest.mark.parametrize("content", ["", "{", "[]", "null", "{}"])
def test_a_state_that_cannot_be_read_is_none(tmp_path: Path, content: str) -> None:
    with folder.only_one(tmp_path):
        folder.state_path(tmp_path).write_text(content)
        assert folder.read_state(tmp_path) is None


def test_a_state_without_a_stack_is_none(tmp_path: Path) -> None:
    folder.write_state(folder.state_path(tmp_path), State(1))
    assert folder.read_state(tmp_path) is None


# --- ports -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", ["", "head only\n", "head\n0: short\n", "head\n\n\n"])
def test_a_table_of_ports_that_is_odd_has_no_listeners(table: str) -> None:
    assert ports.listeners(table) == {}


def test_a_table_of_version_six_is_read_too() -> None:
    row = "0: " + "0" * 32 + ":1F90 " + "0" * 32 + ":0000 0A 0:0 00:0 0 0 0 4711 1"
    assert ports.listeners(f"head\n{row}\n") == {8080: {4711}}


@pytest.mark.parametrize("address", ["no such name", "999.1.1.1", "::zz"])
def test_an_address_that_is_none_is_refused_in_words(address: str) -> None:
    with pytest.raises(Refused, match="has no address"):
        ports.check_free(address, ports.free_port())


# --- the server --------------------------------------------------------------------------------------------------


@pytest.fixture
def odd_redis(tmp_path: Path) -> Iterator[PrivateRedis]:
    server = PrivateRedis(tmp_path / "a b#1%?" / "redis")
    server.start()
    yield server
    server.close()


def test_a_server_in_a_folder_with_an_odd_name_can_be_reached(odd_redis: PrivateRedis) -> None:
    with redis.Redis.from_url(odd_redis.url) as client:
        assert client.ping()


def test_celery_reaches_it_too(odd_redis: PrivateRedis) -> None:
    address = "redis+socket://" + odd_redis.url.removeprefix("unix://")
    with Connection(address) as link:
        link.ensure_connection(max_retries=1, timeout=5)
        assert link.connected


def test_who_looks_for_it_from_outside_finds_it(odd_redis: PrivateRedis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REDIS_URL", raising=False)
    monkeypatch.setenv("PIHERDER_DATA", str(odd_redis.folder.parent))
    assert env.redis_url() == odd_redis.url
    with redis.Redis.from_url(env.redis_url()) as client:
        assert client.ping()


@pytest.mark.parametrize(("value", "written"), [("a", '"a"'), ('a"b', '"a\\"b"'), ("a\\b", '"a\\\\b"'), (7, '"7"')])
def test_values_of_redis_are_quoted(value: object, written: str) -> None:
    assert quoted(value) == written


def test_the_server_keeps_every_write_and_throws_nothing_away() -> None:  # case H18
    lines = configuration(Path("/d"), Path("/d/s")).splitlines()
    assert {"port 0", "appendonly yes", "maxmemory-policy noeviction", "unixsocketperm 700"} <= set(lines)
    assert not [line for line in lines if "requirepass" in line]
