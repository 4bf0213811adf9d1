"""`import_hosts`: what it takes over from OpenSSH's files, and what it leaves out and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django_celery_beat.models import PeriodicTask

from hosts.host_keys import generate_key, parse_public_line
from hosts.models import Host
from tests.commands import Ran, herder, refused
from tests.factories import make_host

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.django_db
HOST_KEY = generate_key("")[1]


class Files:
    """A configuration, a known_hosts file and a login key."""

    def __init__(self, folder: Path) -> None:
        self.config, self.known, self.key = folder / "config", folder / "known_hosts", folder / "id"
        self.key.write_text(generate_key("tests")[0])
        self.known.write_text("")
        self.config.write_text("")

    def host(self, name: str, *lines: str, known: bool = True) -> None:
        """One more host at an address of its own."""
        address = f"{name}.example"
        block = [f"Host {name}", f"HostName {address}", f"IdentityFile {self.key}", *lines]
        with self.config.open("a") as config:
            config.write("\n".join(block) + "\n")
        if known:
            with self.known.open("a") as known_hosts:
                known_hosts.write(f"{address} {HOST_KEY}\n")

    def words(self, *more: str) -> tuple[str, ...]:
        """The options that name these files."""
        return ("--config", str(self.config), "--known-hosts", str(self.known), *more)

    def run(self, *more: str) -> Ran:
        """The command on these files, without a question."""
        return herder("import_hosts", *self.words("--yes", *more))


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_a_host_comes_with_key_pin_and_schedule(files: Files) -> None:
    files.host("pi1", "User ann")
    ran = files.run()
    assert (ran.code, ran.err) == (0, "")
    host = Host.herd.get()
    assert (host.name, host.address, host.user, host.port) == ("pi1", "pi1.example", "ann", 22)
    assert host.keys.get().public == HOST_KEY.split()[1]
    assert PeriodicTask.objects.get().name == "Backup of pi1"


def test_nothing_is_saved_where_nobody_can_be_asked(files: Files) -> None:
    files.host("pi1")
    ran = herder("import_hosts", *files.words())
    assert ran.code == 2
    assert "add --yes" in ran.err
    assert ran.rows[1][:2] == ["save", "pi1"]
    assert not Host.objects.exists()


@pytest.mark.parametrize(
    ("lines", "known", "why"),
    [
        ((), False, "its host key is not in known_hosts: use add_host"),
        (("ProxyCommand nc %h %p",), True, "ProxyCommand is not supported, use ProxyJump"),
        (("ProxyJump elsewhere",), True, "its jump host elsewhere is not among the hosts: add that one first"),
    ],
)
def test_what_cannot_be_taken_over_is_left_out_with_its_reason(
    lines: tuple[str, ...], known: bool, why: str, files: Files
) -> None:
    files.host("good")
    files.host("bad", *lines, known=known)
    ran = files.run()
    assert ran.out.splitlines()[2].startswith("skip  bad")
    assert ran.out.splitlines()[2].endswith(why)
    assert list(Host.herd.values_list("name", flat=True)) == ["good"]


@pytest.mark.parametrize("name", ["LocalCommand", "RemoteCommand", "KnownHostsCommand"])
def test_what_is_left_out_of_a_host_leaves_the_host_in(name: str, files: Files) -> None:
    files.host("pi1", f"{name} /bin/true", "PermitLocalCommand yes")
    ran = files.run()
    assert ran.code == 0
    assert ran.out.splitlines()[1].startswith("save  pi1")
    assert ran.out.splitlines()[1].endswith(f"{name} is not supported and was left out")
    assert Host.herd.get().name == "pi1"


def test_a_host_without_its_key_file_says_so_and_what_helps(files: Files) -> None:
    files.host("pi1")
    files.key.unlink()
    ran = files.run()
    assert (ran.code, ran.rows[1][:2]) == (1, ["skip", "pi1"])
    assert f"no usable login key: name one with --key; the key file {files.key} is not there" in ran.out


def test_a_host_that_is_there_is_left_alone(files: Files) -> None:
    make_host("pi1")
    files.host("pi1")
    ran = files.run()
    assert (ran.code, ran.err) == (1, "None of these hosts can be imported.\n")
    assert "is there already" in ran.out


def test_jump_hosts_come_first_whatever_their_order(files: Files) -> None:
    files.host("inner", "ProxyJump gate")
    files.host("gate")
    assert files.run().out.splitlines()[-1].startswith("Imported gate, inner.")
    inner = Host.herd.select_related("jump").get(name="inner")
    assert inner.jump is not None
    assert inner.jump.name == "gate"


def test_jump_hosts_in_a_circle_are_left_out(files: Files) -> None:
    files.host("a", "ProxyJump b")
    files.host("b", "ProxyJump a")
    assert files.run().code == 1
    assert not Host.objects.exists()


def test_a_key_for_all_replaces_those_of_the_config(files: Files, tmp_path: Path) -> None:
    files.host("pi1")
    files.key.unlink()
    private, public = generate_key("other")
    (tmp_path / "other").write_text(private)
    assert files.run("--key", str(tmp_path / "other")).code == 0
    assert Host.herd.get().credential.fingerprint == parse_public_line(public).fingerprint
    assert refused("import_hosts", *files.words("--key", "/nowhere")).startswith("/nowhere cannot be read")


def test_a_config_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    words = ("--config", str(tmp_path / "no"), "--known-hosts", str(tmp_path / "no"))
    assert refused("import_hosts", *words).endswith("cannot be read: No such file or directory.")
