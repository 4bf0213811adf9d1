"""A rotation that is killed at any point, and processes that run on while the key changes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from piherder import env
from piherder.house.folder import CLONE
from piherder.key_file import KeyFile
from tests.piherder.test_settings_read import fresh

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MANY = 250
FILL = f"""
import django; django.setup()
from hosts.models import Credential
from hosts.vault import seal
Credential.objects.bulk_create(
    Credential(name=f"key-{{n}}", public_key="p", fingerprint="f", private_key_sealed=seal(f"secret {{n}}"))
    for n in range({MANY})
)
"""
KILLED = """
import os, signal, sys
import django; django.setup()
from piherder import rotation
verb, point, left = sys.argv[1], sys.argv[2], int(sys.argv[3])
def strike(step):
    global left
    left -= step == point
    if step == point and left <= 0:
        os.kill(os.getpid(), signal.SIGKILL)
if point == "inside":
    from django.db.models import QuerySet
    update = QuerySet.update
    def struck(self, **fields):
        update(self, **fields)
        strike("inside")
        return 1
    QuerySet.update = struck
if point == "written":
    from piherder.key_file import KeyFile
    put = KeyFile.put
    def struck_put(self, keys):
        put(self, keys)
        strike("written")
    KeyFile.put = struck_put
getattr(rotation, verb)(strike)
"""
READ = """
import django; django.setup()
from hosts.models import Credential
from hosts.vault import unseal
rows = Credential.objects.order_by("pk").values_list("private_key_sealed", flat=True)
assert [unseal(each) for each in rows] == [f"secret {n}" for n in range(len(rows))]
print(len(rows))
"""
LIVE = """
import sys
import django; django.setup()
from hosts.models import Credential
from hosts.vault import key_fingerprint, seal, unseal
print("ready", flush=True)
for order in sys.stdin:
    word, name, *secret = order.split()
    row = Credential.objects.get(name=name)
    if word == "edit":
        Credential.objects.filter(pk=row.pk).update(private_key_sealed=seal(secret[0]))
        print(key_fingerprint(), flush=True)
    else:
        print(unseal(row.private_key_sealed), flush=True)
"""


@dataclass(frozen=True, slots=True)
class House:
    """An installation of its own."""

    data: Path

    @property
    def keys(self) -> KeyFile:
        return KeyFile(self.data / "master.key")

    def manage(self, *words: str) -> str:
        done = fresh(self.data, ["manage.py", *words])
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    def kill(self, verb: str, point: str, number: int) -> None:
        done = fresh(self.data, ["-c", KILLED, verb, point, str(number)])
        assert done.returncode == -signal.SIGKILL, done.stderr

    def readable(self) -> int:
        """How many secrets a fresh process opens; each is what it was."""
        done = fresh(self.data, ["-c", READ])
        assert done.returncode == 0, done.stderr
        return int(done.stdout)

    def let_settle(self) -> None:
        then = time.time() - 120
        os.utime(self.data / "master.key", (then, then))


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    house = House(tmp_path_factory.mktemp("data"))
    house.manage("migrate", "--verbosity", "0")
    assert fresh(house.data, ["-c", FILL]).returncode == 0
    return house.data


@pytest.fixture
def house(filled: Path, tmp_path: Path) -> House:
    """Many secrets and one key."""
    subprocess.run(["cp", "-a", f"{filled}/.", tmp_path / "data"], check=True)
    return House(tmp_path / "data")


@pytest.mark.parametrize(
    ("point", "number", "keys"),
    [("key", 1, 1), ("written", 1, 2), ("proof", 1, 2), ("batch", 1, 2), ("batch", 2, 2), ("inside", 150, 2),
     ("proof", 2, 2)],
)  # fmt: skip
def test_a_rotation_that_was_killed_goes_on_where_it_was(house: House, point: str, number: int, keys: int) -> None:
    house.kill("rotate", point, number)
    assert (len(house.keys), house.readable()) == (keys, MANY)
    said = house.manage("rotate_master_key")
    assert f"{MANY} secrets opened with the new key alone" in said
    assert (len(house.keys), house.readable()) == (2, MANY)


@pytest.mark.parametrize(("point", "keys"), [("proof", 2), ("drop", 2), ("written", 1), ("dropped", 1)])
def test_an_end_that_was_killed_loses_nothing(house: House, point: str, keys: int) -> None:
    house.manage("rotate_master_key")
    house.let_settle()
    house.kill("finish", point, 1)
    assert (len(house.keys), house.readable()) == (keys, MANY)
    if keys == 2:
        house.manage("rotate_master_key", "--finish")
    assert (len(house.keys), house.readable()) == (1, MANY)


def test_nothing_of_a_key_is_left_beside_the_file(house: House) -> None:
    draft = house.data / f".master.key.{'a' * 16}"
    draft.write_text("what a killed run left")
    house.manage("rotate_master_key")
    assert not draft.exists()
    assert [path.name for path in house.data.glob(".master.key*")] == []


# --- a process that runs on --------------------------------------------------------------------------------------


@pytest.fixture
def live(house: House) -> Iterator[subprocess.Popen[str]]:
    """A process that has read the old key and stays."""
    given = {name: value for name, value in env.child_environment().items() if name in {"PATH", "HOME", "LANG"}}
    given |= {"PIHERDER_DATA": str(house.data), "DJANGO_SETTINGS_MODULE": "piherder.settings"}
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", LIVE], env=given, cwd=CLONE, stdin=pipe, stdout=pipe, text=True) as it:
        assert it.stdout is not None
        assert it.stdout.readline() == "ready\n"
        yield it
        it.kill()


def ask(live: subprocess.Popen[str], order: str) -> str:
    assert live.stdin is not None
    assert live.stdout is not None
    print(order, file=live.stdin, flush=True)
    return live.stdout.readline().strip()


def test_a_worker_that_runs_on_opens_everything_at_every_stage(house: House, live: subprocess.Popen[str]) -> None:
    assert ask(live, "read key-7") == "secret 7"
    house.kill("rotate", "batch", 2)  # half of the rows are sealed with the new key
    assert [ask(live, f"read key-{number}") for number in (0, 249)] == ["secret 0", "secret 249"]
    house.manage("rotate_master_key")
    assert [ask(live, f"read key-{number}") for number in (0, 249)] == ["secret 0", "secret 249"]
    house.let_settle()
    house.manage("rotate_master_key", "--finish")
    assert [ask(live, f"read key-{number}") for number in (0, 249)] == ["secret 0", "secret 249"]


def test_a_page_that_runs_on_seals_with_the_new_key(house: House, live: subprocess.Popen[str]) -> None:
    before = ask(live, "edit key-0 first")
    said = house.manage("rotate_master_key")
    after = ask(live, "edit key-0 second")
    assert after != before
    assert f"its fingerprint is {after}." in said
    house.let_settle()
    assert "0 secrets sealed anew" in house.manage("rotate_master_key", "--finish")
    assert ask(live, "read key-0") == "second"
