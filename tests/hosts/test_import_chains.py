"""`import_hosts`: ways through several hosts, hashed and odd known_hosts, the question, and all or none."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
from django.utils import timezone
from django_celery_beat.models import PeriodicTask

from hosts import importing
from hosts.enrol import EnrolRefused
from hosts.host_keys import generate_key
from hosts.management.commands.import_hosts import default_known_hosts
from hosts.models import Credential, Host
from hosts.openssh_import import Found
from tests.commands import Ran, herder, refused
from tests.factories import make_host
from tests.hosts.rows import make_generation, make_source
from tests.terminal import types

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.django_db
HOST_KEY = " ".join(generate_key("")[1].split()[:2])
OTHER_KEY = " ".join(generate_key("")[1].split()[:2])


class Files:
    """A configuration, a known_hosts file and a login key."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config, self.known, self.key = folder / "config", folder / "known_hosts", folder / "id"
        self.key.write_text(generate_key("tests")[0])
        self.known.write_text("")

    def write(self, *blocks: str) -> None:
        """The configuration, with a login key for all."""
        self.config.write_text("\n".join((*blocks, "Host *", f"  IdentityFile {self.key}", "")))

    def know(self, *lines: str) -> None:
        """Lines of known_hosts."""
        self.known.write_text("".join(f"{line}\n" for line in lines))

    def run(self, *more: str) -> Ran:
        """The command without a question."""
        return self.ask("--yes", *more)

    def ask(self, *more: str) -> Ran:
        """The command."""
        return herder("import_hosts", "--config", str(self.config), "--known-hosts", str(self.known), *more)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def names() -> list[str]:
    return list(Host.herd.values_list("name", flat=True))


# --- jump hosts


def test_a_chain_of_jump_hosts_is_taken_over_link_by_link(files: Files) -> None:
    files.write("Host c", "  ProxyJump b", "Host b", "  ProxyJump a", "Host a")
    files.know(*(f"{name} {HOST_KEY}" for name in "abc"))
    assert files.run().out.splitlines()[-1].startswith("Imported a, b, c.")
    last = Host.herd.select_related("jump__jump").get(name="c")
    assert last.jump
    assert last.jump.jump
    assert (last.jump.name, last.jump.jump.name, last.jump.jump.jump) == ("b", "a", None)


@pytest.mark.parametrize("way", ["a,b", "ann@a", "a:2222", "elsewhere"])
def test_a_way_that_is_no_single_host_of_the_herd_is_left_out(way: str, files: Files) -> None:
    files.write("Host a", "Host b", "Host c", f"  ProxyJump {way}")
    files.know(*(f"{name} {HOST_KEY}" for name in "abc"))
    ran = files.run()
    assert names() == ["a", "b"]
    assert f"its jump host {way} is not among the hosts" in ran.out


def test_a_jump_host_that_is_left_out_takes_those_behind_it_along(files: Files) -> None:
    files.write("Host a", "Host b", "  ProxyJump a", "Host c")
    files.know(f"b {HOST_KEY}", f"c {HOST_KEY}")
    files.run()
    assert names() == ["c"]


def test_a_jump_host_that_is_in_the_herd_already_is_used(files: Files) -> None:
    gate = make_host("gate")
    files.write("Host pi1", "  ProxyJump gate")
    files.know(f"pi1 {HOST_KEY}")
    files.run()
    assert Host.herd.get(name="pi1").jump == gate


def test_a_jump_host_that_was_removed_is_not_there(files: Files) -> None:
    make_host("gate", removed_at=timezone.now())
    files.write("Host pi1", "  ProxyJump gate")
    files.know(f"pi1 {HOST_KEY}")
    assert "its jump host gate is not among the hosts" in files.run().out


# --- known_hosts


def test_hashed_names_are_found(files: Files) -> None:
    files.write("Host pi1", "  HostName pi1.example")
    files.know(f"pi1.example {HOST_KEY}", f"other.example {OTHER_KEY}")
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", files.known], check=True, capture_output=True)
    assert "example" not in files.known.read_text()
    assert files.run().code == 0
    assert Host.herd.get().keys.get().public == HOST_KEY.split()[1]


def test_another_port_has_a_name_of_its_own(files: Files) -> None:
    files.write("Host pi1", "  Port 2222")
    files.know(f"pi1 {OTHER_KEY}", f"[pi1]:2222 {HOST_KEY}")
    files.run()
    host = Host.herd.get()
    assert (host.port, host.keys.get().public) == (2222, HOST_KEY.split()[1])


def test_several_names_of_one_line_are_one_host(files: Files) -> None:
    files.write("Host pi1", "  HostName 192.0.2.7")
    files.know(f"pi1.example,192.0.2.7 {HOST_KEY}")
    assert files.run().code == 0


def test_several_files_are_looked_through(files: Files) -> None:
    more = files.folder / "more"
    more.write_text(f"pi1 {HOST_KEY}\n")
    files.write("Host pi1")
    assert files.run("--known-hosts", str(more)).code == 0


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("@revoked {name} {key}", "revoked"),
        ("@cert-authority {name} {key}", "host certificates are not supported"),
        ("{name} ssh-ed25519 nonsense", "its host key is not in known_hosts: use add_host"),
        ("# {name} {key}", "its host key is not in known_hosts: use add_host"),
    ],
)
def test_a_line_that_proves_nothing(line: str, why: str, files: Files) -> None:
    files.write("Host pi1")
    files.know(line.format(name="pi1", key=HOST_KEY))
    ran = files.run()
    assert (ran.code, names()) == (1, [])
    assert why in ran.out


def test_without_a_known_hosts_file_nothing_is_proven(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_known_hosts() == []
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "known_hosts").write_text("")
    assert default_known_hosts() == ["~/.ssh/known_hosts"]


# --- keys and names


def test_a_key_behind_a_passphrase_is_passed_over(files: Files) -> None:
    subprocess.run(["ssh-keygen", "-q", "-p", "-N", "PLANTED", "-f", files.key], check=True, capture_output=True)
    files.write("Host pi1")
    files.know(f"pi1 {HOST_KEY}")
    assert "no usable login key: name one with --key" in files.run().out


def test_one_key_for_all_is_stored_once(files: Files) -> None:
    (files.folder / "all").write_text(generate_key("all")[0])
    files.write("Host a", "Host b")
    files.know(f"a {HOST_KEY}", f"b {HOST_KEY}")
    assert files.run("--key", str(files.folder / "all")).code == 0
    assert Credential.objects.count() == 1


@pytest.mark.parametrize("text", ["", "nonsense", "\ufffd" * 10])
def test_a_key_for_all_that_is_none_is_wrong_use(text: str, files: Files) -> None:
    (files.folder / "bad").write_text(text)
    files.write("Host a")
    ran = files.run("--key", str(files.folder / "bad"))
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)


@pytest.mark.parametrize("name", ["a/b", "grün", "_x", "a" * 61])
def test_a_name_that_cannot_be_a_folder_is_left_out(name: str, files: Files) -> None:
    files.write(f"Host {name}", "  HostName pi1")
    files.know(f"pi1 {HOST_KEY}")
    assert files.run().code == 1
    assert names() == []


def test_a_user_that_no_system_has_is_left_out(files: Files) -> None:
    files.write("Host a", f"  User {'u' * 70}", "Host b")
    files.know(f"a {HOST_KEY}", f"b {HOST_KEY}")
    assert "the user's name is too long" in files.run().out
    assert names() == ["b"]


def test_patterns_are_no_hosts(files: Files) -> None:
    files.write("Host pi* !pi9", "  User ann", "Host pi1")
    files.know(f"pi1 {HOST_KEY}")
    files.run()
    assert [(host.name, host.user) for host in Host.herd.all()] == [("pi1", "ann")]


def test_a_configuration_of_patterns_only_is_wrong_use(files: Files) -> None:
    files.write()
    assert "names no host: it needs `Host` lines without wildcards." in refused(
        "import_hosts", "--config", str(files.config), "--known-hosts", str(files.known), "--yes"
    )


def test_a_removed_host_comes_back_with_what_was_kept(files: Files) -> None:
    gone = make_host("pi1", removed_at=timezone.now())
    make_generation(make_source(gone))
    files.write("Host pi1")
    files.know(f"pi1 {HOST_KEY}")
    assert "pi1 is back, with 1 old source and 1 generation." in files.run().out
    assert Host.herd.get() == gone
    assert gone.sources.get().generations.count() == 1


# --- the question, and all or none


def test_a_yes_saves(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    files.write("Host pi1")
    files.know(f"pi1 {HOST_KEY}")
    types(monkeypatch, "y\n")
    ran = files.ask()
    assert (ran.code, ran.err) == (0, "Save 1 host? [y/N] ")
    assert names() == ["pi1"]


@pytest.mark.parametrize("answer", ["", "\n", "n\n", "maybe\n"])
def test_anything_else_saves_nothing(answer: str, files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    files.write("Host pi1", "Host pi2")
    files.know(f"pi1 {HOST_KEY}", f"pi2 {HOST_KEY}")
    types(monkeypatch, answer)
    ran = files.ask()
    assert (ran.code, names()) == (1, [])
    assert ran.err == "Save 2 hosts? [y/N] Nothing was stored.\n"


def test_all_hosts_are_saved_or_none(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    files.write("Host a", "Host b")
    files.know(f"a {HOST_KEY}", f"b {HOST_KEY}")
    store = importing.store

    def second_fails(planned: importing.Planned, *, by: str) -> Host:
        if planned.name == "b":
            raise EnrolRefused("The second one cannot be stored.")
        return store(planned, by=by)

    monkeypatch.setattr(importing, "store", second_fails)
    ran = files.run()
    assert (ran.code, ran.err) == (1, "The second one cannot be stored.\n")
    assert (names(), PeriodicTask.objects.count()) == ([], 0)


def test_a_host_without_a_key_is_never_stored() -> None:
    planned = importing.Planned(Found("pi1", "pi1"), None, "", ())
    with pytest.raises(EnrolRefused, match="no usable login key"):
        importing.store(planned, by="tests")
