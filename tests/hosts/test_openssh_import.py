"""Reading hosts from an OpenSSH configuration, with the real ssh and ssh-keygen."""

import os
import pwd
import subprocess
import time
from pathlib import Path

import pytest

from hosts.openssh_import import Found, ImportRefused, effective, known_keys, read_config, split_line

HOME = Path(pwd.getpwuid(os.getuid()).pw_dir)
KEY = "AAAAC3NzaC1lZDI1NTE5AAAAIFIC5cXvX4SdX0QJwxVVGJm5Xsn7MpkQO4z2k0aTKyy1"
OTHER = "AAAAC3NzaC1lZDI1NTE5AAAAIGCV0+IyKjzV0t3O1lQKk1KeDCHIlLOS7mYy8oOQgXxL"


class Folder:
    """A folder with a configuration and a known_hosts file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "config"
        self.known = path / "known_hosts"

    def write(self, text: str, name: str = "config") -> Path:
        file = self.path / name
        file.write_text(text, encoding="utf-8")
        return file

    def read(self, text: str, known: str | None = None) -> dict[str, Found]:
        self.write(text)
        if known is not None:
            self.write(known, "known_hosts")
        found = read_config(self.config, [] if known is None else [self.known])
        return {host.alias: host for host in found}

    def refusal(self, text: str) -> str:
        with pytest.raises(ImportRefused) as caught:
            self.read(text)
        return str(caught.value)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_a_host(folder: Folder) -> None:
    key = folder.write("", "id_attic")
    text = f"Host attic\n  HostName 192.0.2.10\n  Port 2222\n  User pi\n  IdentityFile {key}\n  ProxyJump gate\n"
    assert folder.read(text)["attic"] == Found(
        alias="attic", address="192.0.2.10", port=2222, user="pi", identity_files=(key,), proxy_jump="gate"
    )


def test_what_holds_for_all_holds_for_each(folder: Folder) -> None:
    found = folder.read("Host a b\n  User pi\nHost *\n  User root\n  Port 22022\nHost c\n")
    assert [(host.alias, host.address, host.user, host.port) for host in found.values()] == [
        ("a", "a", "pi", 22022),
        ("b", "b", "pi", 22022),
        ("c", "c", "root", 22022),
    ]


def test_wildcards_and_negations_are_no_hosts(folder: Folder) -> None:
    assert list(folder.read("Host *.lan web? !db db\nHost a\nHost a b\n")) == ["db", "a", "b"]


def test_the_name_in_the_address(folder: Folder) -> None:
    assert folder.read("Host web\n  HostName %h.example\n")["web"].address == "web.example"


@pytest.mark.parametrize("line", ["host=web", "HOST = web", '"Host" web', '\tHost "web" # mine', "Host web\r"])
def test_spellings_that_ssh_knows(folder: Folder, line: str) -> None:
    assert folder.read(f"{line}\n  HostName 192.0.2.1\n")["web"].address == "192.0.2.1"


def test_includes_are_followed(folder: Folder) -> None:
    (folder.path / "conf.d").mkdir()
    folder.write("Host a\n  HostName 192.0.2.1\n", "conf.d/10-a")
    folder.write(f"Include {folder.path}/more\nHost b\n  HostName 192.0.2.2\n", "conf.d/20-b")
    folder.write("Host c\n  HostName 192.0.2.3\n", "more")
    found = folder.read(f"Include {folder.path}/conf.d/*\nInclude {folder.path}/none\nHost d\n")
    assert {alias: host.address[-1] for alias, host in found.items()} == {"a": "1", "b": "2", "c": "3", "d": "d"}


def test_an_include_under_a_host_holds_for_that_host_as_in_ssh(folder: Folder) -> None:
    more = folder.write("Host a c\n  User pi\n", "more")
    found = folder.read(f"Host a\n  Include {more}\nHost *\n  User root\n")
    assert {alias: host.user for alias, host in found.items()} == {"a": "pi", "c": "root"}


def test_a_relative_include_starts_at_the_home_folder_as_in_ssh(folder: Folder) -> None:
    relative = os.path.relpath(folder.write("Host a\n  User me\n", "more"), HOME / ".ssh")
    if not (HOME / ".ssh").exists():
        relative = f"~/{os.path.relpath(folder.path / 'more', HOME)}"
    assert folder.read(f"Include {relative}\n")["a"].user == "me"


def test_an_include_of_itself_ends(folder: Folder) -> None:
    assert "a" in folder.read(f"Host a\nHost never\nInclude {folder.path}/config\n")


@pytest.mark.parametrize(("pattern", "words"), [("${HOME}/x", "without variables"), ("~nobody.here/x", "no such user")])
def test_an_include_that_cannot_be_followed(folder: Folder, pattern: str, words: str) -> None:
    assert words in folder.refusal(f"Host a\nInclude {pattern}\n")


@pytest.mark.parametrize(
    "line",
    [
        'Match exec "touch {mark}"',
        'match host a EXEC "touch {mark}"',
        'Match all\nMatch !exec "touch {mark}"',
        'Match=exec "touch {mark}"',
        '"Match"exec "touch {mark}"',
        'Match ex"ec" "touch {mark}"',
        'M"atch" exec "touch {mark}"',
        '  Match originalhost x\x0cy,a exec="touch {mark}"',
    ],
)
def test_a_configuration_that_runs_commands_is_refused(folder: Folder, line: str) -> None:
    mark = folder.path / "mark"
    words = folder.refusal("Host a\n" + line.format(mark=mark) + "\n  User x\n")
    assert "Match exec" in words
    assert not mark.exists()


def test_the_refusal_names_file_and_line(folder: Folder) -> None:
    more = folder.write("# mine\n\nMatch exec true\n", "more")
    words = folder.refusal(f"Host a\nInclude {more}\n")
    assert words == f"{more}, line 3, runs a command (Match exec): take that block out and import again."


def hidden_command(folder: Folder, mark: Path) -> str:
    """Return a configuration whose command the refusal does not see: ssh takes I"nclude" for Include."""
    more = folder.write(f'Match exec "touch {mark}"\n  User evil\n', "more")
    return f'I"nclude" {more}\nHost a\n'


def test_a_command_that_slipped_past_the_refusal_is_not_run(folder: Folder) -> None:
    mark = folder.path / "mark"
    assert folder.read(hidden_command(folder, mark))["a"].user != "evil"
    assert not mark.exists()


def test_the_same_command_is_run_by_a_careless_ssh(folder: Folder) -> None:
    mark = folder.path / "mark"
    folder.write(hidden_command(folder, mark))
    subprocess.run(["ssh", "-F", str(folder.config), "-G", "a"], check=True, capture_output=True, timeout=10)
    assert mark.exists()


def test_a_match_without_exec_is_kept(folder: Folder) -> None:
    found = folder.read(
        "Host a executor\n  HostName 192.0.2.1\nMatch host 192.0.2.1\n  User deep\nMatch host exec.lan\n"
    )
    assert found["a"].user == "deep"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("LocalCommand touch {mark}", "LocalCommand is not supported"),
        ("RemoteCommand touch {mark}", "RemoteCommand is not supported"),
        ("KnownHostsCommand /usr/bin/touch {mark}", "KnownHostsCommand is not supported"),
    ],
)
def test_other_commands_are_left_out_and_not_run(folder: Folder, line: str, words: str) -> None:
    mark = folder.path / "mark"
    host = folder.read(f"Host a\n  PermitLocalCommand yes\n  {line.format(mark=mark)}\n")["a"]
    assert (host.problems, host.notes) == ((), (f"{words} and was left out",))
    assert not mark.exists()


def test_a_command_on_the_way_is_a_problem_and_not_run(folder: Folder) -> None:
    mark = folder.path / "mark"
    host = folder.read(f"Host a\n  ProxyCommand touch {mark}\n")["a"]
    assert (host.problems, host.notes) == (("ProxyCommand is not supported, use ProxyJump",), ())
    assert not mark.exists()


def test_no_proxy_is_no_problem(folder: Folder) -> None:
    host = folder.read("Host a\n  ProxyCommand none\n  ProxyJump none\n")["a"]
    assert (host.proxy_jump, host.problems) == (None, ())


def test_options_of_other_systems_are_passed_over(folder: Folder) -> None:
    host = folder.read("Host a\n  UseKeychain yes\n  HostName 192.0.2.1\n")["a"]
    assert (host.address, host.problems) == ("192.0.2.1", ())


def test_names_are_not_resolved(folder: Folder) -> None:
    begun = time.monotonic()
    host = folder.read("CanonicalizeHostname always\nCanonicalDomains invalid\nHost a\n")["a"]
    assert (host.address, time.monotonic() - begun < 2) == ("a", True)


def test_what_ssh_cannot_read_is_told_in_its_words(folder: Folder) -> None:
    host = folder.read("Host a\n  Port many\n")["a"]
    assert host.problems[0].startswith("ssh cannot read it: ")


@pytest.mark.parametrize("alias", ["-oProxyCommand=true", '"a b"'])
def test_names_that_cannot_be_used(folder: Folder, alias: str) -> None:
    [host] = folder.read(f"Host {alias}\n").values()
    assert host.problems == ("the name cannot be used on a command line, give the host another one",)


def test_a_key_file_that_is_missing_is_named(folder: Folder) -> None:
    host = folder.read("Host a\n  IdentityFile /nowhere/id\n")["a"]
    assert (host.identity_files, host.problems) == ((), ())
    assert host.notes == ("the key file /nowhere/id is not there",)


def test_the_keys_that_ssh_tries_by_itself_are_no_problem(folder: Folder) -> None:
    host = folder.read("Host a\n")["a"]
    assert (host.problems, host.notes) == ((), ())
    assert all(path.is_file() for path in host.identity_files)


def test_tokens_in_the_name_of_a_key_file(folder: Folder) -> None:
    key = folder.write("", "id_pi@a.lan_2222%")
    text = f"Host a\n  HostName a.lan\n  User pi\n  Port 2222\n  IdentityFile {folder.path}/id_%r@%h_%p%%\n"
    assert folder.read(text)["a"].identity_files == (key,)


def test_no_key_file(folder: Folder) -> None:
    host = folder.read("Host a\n  IdentityFile none\n")["a"]
    assert (host.identity_files, host.problems) == ((), ())


def test_host_keys(folder: Folder) -> None:
    known = f"192.0.2.10,attic ssh-ed25519 {KEY} comment\nother ssh-ed25519 {OTHER}\n"
    host = folder.read("Host attic\n  HostName 192.0.2.10\n", known)["attic"]
    assert host.host_keys == (f"ssh-ed25519 {KEY}",)


def test_host_keys_of_another_port(folder: Folder) -> None:
    known = f"[attic]:2222 ssh-ed25519 {KEY}\nattic ssh-ed25519 {OTHER}\n"
    assert folder.read("Host attic\n  Port 2222\n", known)["attic"].host_keys == (f"ssh-ed25519 {KEY}",)


def test_hashed_host_keys(folder: Folder) -> None:
    folder.write(f"attic ssh-ed25519 {KEY}\n", "known_hosts")
    subprocess.run(["ssh-keygen", "-H", "-f", str(folder.known)], check=True, capture_output=True, timeout=10)
    assert "attic" not in folder.known.read_text(encoding="ascii")
    folder.write("Host attic\n")
    [host] = read_config(folder.config, [folder.known])
    assert host.host_keys == (f"ssh-ed25519 {KEY}",)


def test_host_keys_under_another_name(folder: Folder) -> None:
    host = folder.read("Host a\n  HostName 192.0.2.1\n  HostKeyAlias vault\n", f"vault ssh-ed25519 {KEY}\n")["a"]
    assert host.host_keys == (f"ssh-ed25519 {KEY}",)


def test_host_keys_of_several_files_come_once(folder: Folder) -> None:
    one = folder.write(f"a ssh-ed25519 {KEY}\n", "one")
    two = folder.write(f"a ssh-ed25519 {KEY}\na ssh-ed25519 {OTHER}\n", "two")
    [host] = read_config(folder.write("Host a\n"), [one, two])
    assert host.host_keys == (f"ssh-ed25519 {KEY}", f"ssh-ed25519 {OTHER}")


def test_a_revoked_key_is_not_taken(folder: Folder) -> None:
    known = f"@revoked * ssh-ed25519 {KEY}\na ssh-ed25519 {KEY}\na ssh-ed25519 {OTHER}\n"
    host = folder.read("Host a\n", known)["a"]
    assert host.host_keys == (f"ssh-ed25519 {OTHER}",)
    assert host.problems == ("known_hosts marks a key of this host as revoked",)


def test_an_authority_is_no_host_key(folder: Folder) -> None:
    host = folder.read("Host a.lan\n", f"@cert-authority *.lan ssh-ed25519 {KEY}\n")["a.lan"]
    assert (host.host_keys, len(host.notes)) == ((), 1)


def test_an_unknown_host_has_no_keys(folder: Folder) -> None:
    host = folder.read("Host a\n", "")["a"]
    assert (host.host_keys, host.problems) == ((), ())


def test_files_are_left_as_they_are(folder: Folder) -> None:
    folder.read("Host a\n", f"a ssh-ed25519 {KEY}\n")
    assert {path.name for path in folder.path.iterdir()} == {"config", "known_hosts"}


@pytest.mark.parametrize("text", ["", "# nothing\n", "Host *\n  User pi\n"])
def test_no_host(folder: Folder, text: str) -> None:
    assert "names no host" in folder.refusal(text)


def test_too_many_hosts(folder: Folder) -> None:
    assert "at most 1000" in folder.refusal("Host " + " ".join(f"h{n}" for n in range(1001)))


def test_too_large_a_file(folder: Folder) -> None:
    assert "larger than" in folder.refusal("#" * 1_000_001)


def test_too_many_files(folder: Folder) -> None:
    for number in range(20):
        folder.write(f"Include {folder.path}/deep{number + 1}\n", f"deep{number}")
    folder.write("Host a\n", "deep20")
    assert "too many files" in folder.refusal(f"Include {folder.path}/deep0\n")


def test_a_missing_file(folder: Folder) -> None:
    with pytest.raises(ImportRefused, match="cannot be read: No such file"):
        read_config(folder.config)
    with pytest.raises(ImportRefused, match="known_hosts cannot be read"):
        read_config(folder.write("Host a\n"), [folder.known])


def test_a_folder_is_no_file(folder: Folder) -> None:
    with pytest.raises(ImportRefused, match="Is a directory"):
        read_config(folder.path)


def test_bytes_that_are_not_utf_8(folder: Folder) -> None:
    folder.config.write_bytes(b"# Gr\xfc\xdfe\nHost a\n  HostName 192.0.2.1\n")
    assert [host.address for host in read_config(folder.config)] == ["192.0.2.1"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Host a b", ("host", ["a", "b"])),
        ("  HostName=a", ("hostname", ["a"])),
        ('Host "a b" c # d', ("host", ["a b", "c"])),
        ("Host it's", ("host", ["it's"])),
        ("# Host a", ("", [])),
        ("", ("", [])),
        ("Host", ("host", [])),
    ],
)
def test_split_line(line: str, expected: tuple[str, list[str]]) -> None:
    assert split_line(line) == expected


def test_effective() -> None:
    assert effective("port 22\nIdentityFile a\nidentityfile b c\nempty\n") == {
        "port": ["22"],
        "identityfile": ["a", "b c"],
        "empty": [""],
    }


def test_known_keys() -> None:
    printed = (
        "# Host a found: line 1 REVOKED\n@revoked a ssh-rsa AAAA x\n|1|s|h ssh-ed25519 BBBB\n@revoked\nshort line\n"
    )
    assert known_keys(printed) == [("@revoked", "ssh-rsa AAAA"), ("", "ssh-ed25519 BBBB")]
