"""`add_host`, `edit_host --repin` and `test_host` against a real sshd."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from django_celery_beat.models import PeriodicTask

from hosts import contact
from hosts.access import target_of
from hosts.contact import InstallFailed
from hosts.host_keys import generate_key
from hosts.models import Credential, Host
from hosts.ssh import connect
from piherder.demo.sshd import SYSTEM_PATH
from tests.commands import Ran, herder, refused

if TYPE_CHECKING:
    from piherder.demo.sshd import Sshd
    from tests.hosts.conftest import MakeSshd, MakeTarget

pytestmark = pytest.mark.django_db


@pytest.fixture
def key_file(tmp_path: Path, login_key: tuple[str, str]) -> Path:
    """The key that opens the servers of these tests."""
    file = tmp_path / "id"
    file.write_text(login_key[0])
    return file


def add(server: Sshd, *words: str, name: str = "pi1") -> Ran:
    """`add_host` for a server on loopback."""
    return herder("add_host", name, "--address", "127.0.0.1", "--port", str(server.port), *words)


def test_a_host_is_added_when_its_fingerprint_is_told(sshd: Sshd, key_file: Path) -> None:
    words = ("--key", str(key_file), "--fingerprint", sshd.host_key_fingerprint, "--source", "/srv")
    ran = add(sshd, *words, "--exclude", "*.tmp")
    assert (ran.code, ran.err) == (0, "")
    assert "1 source, host key SHA256:" in ran.out
    host = Host.herd.get()
    assert (host.user, host.keys.get().pinned_by) == ("root", "root")
    assert host.sources.get().excludes == ["*.tmp"]
    assert PeriodicTask.objects.get().crontab.hour == "2"


def test_without_a_schedule_there_is_none(sshd: Sshd, key_file: Path) -> None:
    add(sshd, "--key", str(key_file), "--trust-first-key", "--no-schedule")
    assert Host.herd.exists()
    assert not PeriodicTask.objects.exists()


def test_an_unknown_key_is_shown_and_refused_where_nobody_can_be_asked(sshd: Sshd, key_file: Path) -> None:
    ran = add(sshd, "--key", str(key_file))
    assert (ran.code, ran.out) == (2, "")
    assert sshd.host_key_fingerprint in ran.err
    assert not Host.objects.exists()


def test_another_fingerprint_stores_nothing(sshd: Sshd, key_file: Path) -> None:
    ran = add(sshd, "--key", str(key_file), "--fingerprint", "SHA256:nonsense")
    assert ran.code == 1
    assert "does not show the key" in ran.err
    assert not Host.objects.exists()


def test_all_keys_of_a_trusted_host_are_pinned(make_sshd: MakeSshd, key_file: Path) -> None:
    server = make_sshd(key_types=("ed25519", "ecdsa"))
    assert add(server, "--key", str(key_file), "--trust-first-key").code == 0
    assert Host.herd.get().keys.count() == 2


def test_a_key_that_does_not_open_stores_nothing(sshd: Sshd, tmp_path: Path) -> None:
    (tmp_path / "other").write_text(generate_key("other")[0])
    ran = add(sshd, "--key", str(tmp_path / "other"), "--trust-first-key")
    assert (ran.code, ran.out) == (1, "")
    assert "does not let root in with this key" in ran.err
    assert not Host.objects.exists()
    assert not Credential.objects.exists()


def test_a_made_key_is_printed_to_be_pasted_and_then_opens(make_sshd: MakeSshd) -> None:
    server = make_sshd()
    ran = add(server, "--generate-key", "--trust-first-key")
    assert "authorized_keys" in ran.out
    server.add_key(ran.out.splitlines()[-1])
    connect(target_of(Host.herd.get())).close()


def test_a_closed_port_is_one_sentence(key_file: Path) -> None:
    ran = herder("add_host", "pi1", "--address", "127.0.0.1", "--port", "1", "--key", str(key_file))
    assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)
    assert "cannot be reached" in ran.err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["a b", "--generate-key"], "'a b' cannot be a name: Use letters"),
        (["pi1"], "One of the arguments --key --generate-key is required"),
        (["pi1", "--generate-key", "--port", "0"], "--port must lie between 1 and 65535, not 0."),
        (["pi1", "--generate-key", "--source", "/proc"], "/proc belongs to the operating system"),
        (["pi1", "--generate-key", "--source", "data"], "The path data is not absolute"),
        (["pi1", "--key", "/nowhere"], "/nowhere cannot be read: No such file or directory."),
        (["pi1", "--generate-key", "--jump", "pi9"], "There is no host called pi9"),
    ],
)
def test_slips_are_said_before_the_host_is_contacted(words: list[str], sentence: str) -> None:
    assert refused("add_host", "--address", "127.0.0.1", *words).startswith(sentence)


def test_a_host_is_added_through_another(make_sshd: MakeSshd, sshd: Sshd, key_file: Path) -> None:
    words = ("--key", str(key_file), "--trust-first-key")
    add(sshd, *words, name="gate")
    inner = make_sshd()
    assert add(inner, *words, "--jump", "gate", name="inner").code == 0
    assert herder("test_host", "inner").code == 0
    assert "via gate" in herder("hosts").out


def home_of(make_sshd: MakeSshd, folder: Path) -> Sshd:
    """A server whose sessions have this home folder; the keys it accepts are those in it."""
    (folder / ".ssh").mkdir(parents=True)
    server = make_sshd(path=f"{SYSTEM_PATH} HOME={folder}")
    (folder / ".ssh" / "authorized_keys").symlink_to(server.folder / "authorized_keys")
    return server


def test_a_key_is_put_in_place_once(make_sshd: MakeSshd, target_of: MakeTarget, tmp_path: Path) -> None:
    server = home_of(make_sshd, tmp_path / "home")
    private, public = generate_key("new")
    with connect(target_of(server)) as shell:
        contact.put_key(shell, public)
        contact.put_key(shell, f"{public.rsplit(' ', 1)[0]} renamed")
    lines = (server.folder / "authorized_keys").read_text().splitlines()
    assert (len(lines), lines[1]) == (2, public)
    contact.try_login(target_of(server), private)


def test_a_last_line_without_end_is_not_spoilt(
    make_sshd: MakeSshd, target_of: MakeTarget, tmp_path: Path, login_key: tuple[str, str]
) -> None:
    server = home_of(make_sshd, tmp_path / "home")
    file = server.folder / "authorized_keys"
    file.write_text(login_key[1].strip())
    with connect(target_of(server)) as shell:
        contact.put_key(shell, generate_key("new")[1])
    assert file.read_text().splitlines()[0] == login_key[1].strip()
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_key_that_cannot_be_written_is_one_sentence(
    make_sshd: MakeSshd, target_of: MakeTarget, tmp_path: Path
) -> None:
    (tmp_path / "home").write_text("a file where a folder should be")
    server = make_sshd(path=f"{SYSTEM_PATH} HOME={tmp_path / 'home'}")
    with connect(target_of(server)) as shell, pytest.raises(InstallFailed, match="could not be written on own"):
        contact.put_key(shell, generate_key("new")[1])


def test_a_wrong_password_stores_nothing(sshd: Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("Pa55word\n"))
    ran = add(sshd, "--generate-key", "--trust-first-key", "--password-stdin")
    assert (ran.code, ran.out) == (1, "")
    assert "with this password" in ran.err
    assert "Pa55word" not in ran.err
    assert not Host.objects.exists()


def test_no_password_on_standard_input_is_wrong_use(sshd: Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    ran = add(sshd, "--generate-key", "--trust-first-key", "--password-stdin")
    assert (ran.code, ran.err.split(":")[0]) == (2, "Standard input holds no password")


def test_a_good_host_is_well(sshd: Sshd, key_file: Path, tmp_path: Path) -> None:
    add(sshd, "--key", str(key_file), "--trust-first-key", "--source", str(tmp_path))
    ran = herder("test_host", "pi1")
    assert (ran.code, ran.err) == (0, "")
    assert [row[0] for row in ran.rows[1:]] == ["ok"] * 8
    assert Host.herd.get().last_seen


def test_what_is_missing_is_named_with_its_remedy(make_sshd: MakeSshd, key_file: Path, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for program in Path("/usr/bin").iterdir():
        if program.name not in {"rsync", "flock"}:
            (tools / program.name).symlink_to(program)
    server = make_sshd(path=str(tools))
    add(server, "--key", str(key_file), "--trust-first-key", "--source", "/srv/nowhere")
    ran = herder("test_host", "pi1", "--json")
    assert ran.code == 1
    advice = [check["advice"] for check in ran.document["checks"] if not check["well"]]
    assert advice[0] == "rsync is missing on pi1: sudo apt-get install rsync"
    assert [words.split()[0] for words in advice] == ["rsync", "flock", "/srv/nowhere"]


def test_a_host_that_went_away_is_named(make_sshd: MakeSshd, key_file: Path) -> None:
    server = make_sshd()
    add(server, "--key", str(key_file), "--trust-first-key")
    server.stop()
    ran = herder("test_host", "pi1")
    assert ran.code == 1
    assert "is the host on, and its sshd?" in ran.err
    assert "failing" in herder("hosts").out


def test_a_refused_login_is_told_from_a_host_that_is_down(make_sshd: MakeSshd, key_file: Path) -> None:
    server = make_sshd()
    add(server, "--key", str(key_file), "--trust-first-key")
    (server.folder / "authorized_keys").write_text("")
    ran = herder("test_host", "pi1", "--json")
    assert [(check["name"], check["well"]) for check in ran.document["checks"]] == [
        ("reach", True), ("host key", True), ("login", False),
    ]  # fmt: skip


def test_a_changed_host_key_is_refused_until_it_is_pinned_anew(make_sshd: MakeSshd, key_file: Path) -> None:
    server = make_sshd()
    add(server, "--key", str(key_file), "--trust-first-key")
    server.stop()
    server.make_host_keys(anew=True)
    server.start()
    assert "shows the host key" in herder("test_host", "pi1").err
    assert refused("edit_host", "pi1", "--repin").startswith("The host key of pi1 is unknown")
    assert herder("edit_host", "pi1", "--repin", "--fingerprint", server.host_key_fingerprint).code == 0
    assert herder("test_host", "pi1").code == 0


def test_another_login_key_is_tried_before_it_is_stored(sshd: Sshd, key_file: Path, tmp_path: Path) -> None:
    add(sshd, "--key", str(key_file), "--trust-first-key")
    (tmp_path / "other").write_text(generate_key("other")[0])
    assert herder("edit_host", "pi1", "--key", str(tmp_path / "other")).code == 1
    assert herder("test_host", "pi1").code == 0
    assert Credential.objects.count() == 1
