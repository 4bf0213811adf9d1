"""The private Redis server keeps its data and opens no port."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from redis import Redis

from piherder.house import processes, servers
from piherder.house.folder import Refused
from piherder.house.ports import listening_ports
from piherder.house.servers import PrivateRedis

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[PrivateRedis]:
    server = PrivateRedis(tmp_path / "redis")
    server.start()
    yield server
    server.close()


def put(server: PrivateRedis, value: str) -> None:
    with Redis.from_url(server.url) as client:
        client.set("key", value)


def get(server: PrivateRedis) -> str | None:
    with Redis.from_url(server.url, decode_responses=True) as client:
        value = client.get("key")
        assert value is None or isinstance(value, str)
        return value


def test_keeps_its_data_over_a_stop(redis: PrivateRedis) -> None:
    put(redis, "kept")
    redis.stop()
    assert not redis.answers()
    redis.start()
    assert get(redis) == "kept"


def test_keeps_its_data_over_a_kill(redis: PrivateRedis) -> None:
    put(redis, "kept")
    redis.kill()
    redis.start()
    assert get(redis) == "kept"


def test_can_be_restarted_empty(redis: PrivateRedis) -> None:
    put(redis, "gone")
    redis.kill()
    redis.wipe()
    redis.start()
    assert get(redis) is None


# case H18
def test_never_throws_keys_away(redis: PrivateRedis) -> None:
    with Redis.from_url(redis.url, decode_responses=True) as client:
        assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
        assert client.config_get("appendonly") == {"appendonly": "yes"}


def test_listens_on_its_socket_alone(redis: PrivateRedis) -> None:
    with Redis.from_url(redis.url, decode_responses=True) as client:
        assert client.config_get("port") == {"port": "0"}
    assert redis.socket.stat().st_mode & 0o777 == 0o700
    assert redis.folder.stat().st_mode & 0o777 == 0o700
    assert 6379 not in listening_ports()


def test_leaves_no_process_when_closed(redis: PrivateRedis) -> None:
    pid = redis.pid
    redis.close()
    assert not Path(f"/proc/{pid}").exists()
    with pytest.raises(Refused, match="does not run"):
        assert redis.pid


def test_tells_its_address_to_whoever_looks_in_its_folder(redis: PrivateRedis) -> None:
    assert (redis.folder / servers.ADDRESS).read_text().strip() == redis.url


def test_works_in_a_folder_whose_name_is_too_long_for_a_socket(tmp_path: Path) -> None:
    server = PrivateRedis(tmp_path / ("x" * 100) / "redis")
    server.start()
    put(server, "kept")
    server.close()
    assert not server.socket.parent.exists()


def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    server = PrivateRedis(tmp_path / "redis")
    (server.folder / "appendonlydir").write_text("in the way")
    with pytest.raises(Refused, match=r"did not start: .*appendonlydir"):
        server.start()


def test_odd_folder_names_survive_the_configuration(tmp_path: Path) -> None:
    server = PrivateRedis(tmp_path / 'a "b" c\\d' / "redis")
    server.start()
    server.close()


@pytest.mark.parametrize("name", ["redis-server", "valkey-server"])
def test_a_server_on_the_path_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    (tmp_path / name).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert servers.redis_program() == str(tmp_path / name)


def test_the_wheel_serves_where_no_server_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "setpriv").symlink_to(shutil.which("setpriv") or "")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert f"linux-{platform.machine()}/valkey-server" in servers.redis_program()
    server = PrivateRedis(tmp_path / "redis")
    server.start()
    put(server, "kept")
    server.kill()
    server.start()
    assert get(server) == "kept"
    server.close()


def test_ping_of_nothing_is_false(tmp_path: Path) -> None:
    assert not servers.ping(tmp_path / "nothing")


def test_the_server_ends_with_its_starter(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; from piherder.house.servers import PrivateRedis\n"
        "r = PrivateRedis(Path(sys.argv[1])); r.start(); print(r.pid, flush=True); os.kill(os.getpid(), 9)"
    )
    pid = start_and_die(code, tmp_path)
    assert processes.wait_until(lambda: not processes.is_alive(pid), 5)


def start_and_die(code: str, folder: Path) -> int:

    done = subprocess.run([sys.executable, "-c", code, str(folder / "r")], capture_output=True, text=True)
    assert done.returncode == -9
    return int(done.stdout)
