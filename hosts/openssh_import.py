"""Hosts out of an OpenSSH client configuration and known_hosts files, read by OpenSSH itself.

Which names a configuration knows is found by reading its `Host` lines; what holds for a name is what `ssh -G` prints,
which never contacts the host. Nothing that the configuration names is run: `Match exec` is refused before ssh sees it.
"""

import glob
import pwd
import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import getuid
from pathlib import Path

_TIMEOUT = 10
_FILE_LIMIT = 1_000_000
_FILES_LIMIT = 200
_HOSTS_LIMIT = 1000
# ssh itself stops at this depth, see READCONF_MAX_DEPTH in readconf.c.
_DEPTH_LIMIT = 16
_DEFAULT_KEY = re.compile(r"~/\.ssh/id_(rsa|dsa|ecdsa|ecdsa_sk|ed25519|ed25519_sk|xmss)")
# ssh runs `Match exec` through $SHELL: should one slip past the refusal, this runs nothing.
_ENVIRONMENT = {"LC_ALL": "C", "PATH": "/usr/local/bin:/usr/bin:/bin", "SHELL": "/bin/false"}
_NO_WAY = "ProxyCommand is not supported, use ProxyJump"
_LEFT_OUT = {
    "localcommand": "LocalCommand is not supported and was left out",
    "remotecommand": "RemoteCommand is not supported and was left out",
    "knownhostscommand": "KnownHostsCommand is not supported and was left out",
}


class ImportRefused(Exception):
    """The configuration cannot be read; the message is one sentence that says what to do."""


@dataclass(frozen=True, slots=True)
class Found:
    """One host of the configuration. `host_keys` are `type base64` lines.

    Sentences for the person: `problems` stand in the way of taking it over, `notes` say what is left out of it.
    """

    alias: str
    address: str
    port: int = 22
    user: str = ""
    identity_files: tuple[Path, ...] = ()
    proxy_jump: str | None = None
    host_keys: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def read_config(config: Path, known_hosts: Sequence[Path] = ()) -> list[Found]:
    """Return the hosts that the configuration names without wildcards, each once.

    Raises `ImportRefused` where a file is missing or unreadable, where it would run commands, or names no host.
    """
    for path in known_hosts:
        _read(path)
    aliases = _aliases(config.absolute())
    if not aliases:
        raise ImportRefused(f"{config} names no host: it needs `Host` lines without wildcards.")
    if len(aliases) > _HOSTS_LIMIT:
        raise ImportRefused(f"{config} names {len(aliases)} hosts: split it into files of at most {_HOSTS_LIMIT}.")
    return [_found(config.absolute(), alias, known_hosts) for alias in aliases]


def _aliases(config: Path) -> list[str]:
    names = (name for keyword, words in _lines(config) if keyword == "host" for name in words)
    return list(dict.fromkeys(name for name in names if name and not set(name) & set("*?!")))


def _lines(config: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield keyword and arguments of each line of the configuration and of the files it includes."""
    waiting = [(config, 0)]
    seen: set[Path] = set()
    while waiting:
        path, depth = waiting.pop(0)
        if path in seen:
            continue
        seen.add(path)
        if depth > _DEPTH_LIMIT or len(seen) > _FILES_LIMIT:
            raise ImportRefused(f"{config} includes too many files: import the parts one by one.")
        included: list[tuple[Path, int]] = []
        for count, line in enumerate(_read(path).split("\n"), start=1):
            keyword, words = split_line(line)
            _refuse_exec(path, count, line)
            if keyword == "include":
                included += [(each, depth + 1) for pattern in words for each in _included(path, count, pattern)]
            yield keyword, words
        waiting = included + waiting


def split_line(line: str) -> tuple[str, list[str]]:
    """Split a line of ssh_config(5) into its keyword in lower case and its arguments; a comment has no keyword."""
    found = re.match(r'\s*"?([A-Za-z0-9]+)(?:"\s*=?\s*|\s*=\s*|\s+|$)(.*)', line)
    if found is None:
        return "", []
    try:
        words = shlex.split(found[2], comments=True)
    except ValueError:
        words = found[2].replace('"', " ").split()
    return found[1].lower(), words


def _refuse_exec(path: Path, count: int, line: str) -> None:
    """Refuse a `Match` with `exec`; ssh joins `ex"ec"` to one word and takes `"Match"exec` for two."""
    variants = (line.replace('"', ""), line.replace('"', " "))
    if any(re.match(r"\s*match(exec|.*[^\w.-]exec)(?![\w.-])", variant, re.IGNORECASE) for variant in variants):
        raise ImportRefused(f"{path}, line {count}, runs a command (Match exec): take that block out and import again.")


def _included(path: Path, count: int, pattern: str) -> list[Path]:
    """Find the files as ssh does: relative to ~/.ssh whatever the including file is, wildcards in order of name."""
    if "$" in pattern or "%" in pattern:
        raise ImportRefused(f"{path}, line {count}, includes {pattern}: write the path without variables.")
    name = _expand_home(pattern)
    if name is None:
        raise ImportRefused(f"{path}, line {count}, includes {pattern}, but there is no such user here.")
    # Path.glob knows no absolute patterns.
    return [Path(each) for each in sorted(glob.glob(str(_home() / ".ssh" / name))) if Path(each).is_file()]


def _home() -> Path:
    return Path(pwd.getpwuid(getuid()).pw_dir)


def _expand_home(name: str) -> str | None:
    """Expand `~` and `~user` by the password file, which is what ssh asks, not by the environment."""
    if not name.startswith("~"):
        return name
    user, slash, rest = name[1:].partition("/")
    try:
        home = pwd.getpwnam(user).pw_dir if user else str(_home())
    except KeyError:
        return None
    return home + slash + rest


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            text = file.read(_FILE_LIMIT + 1)
    except OSError as error:
        raise ImportRefused(f"{path} cannot be read: {error.strerror}.") from None
    if len(text) > _FILE_LIMIT:
        raise ImportRefused(f"{path} is larger than {_FILE_LIMIT} bytes: is it the right file?")
    return text.decode("utf-8", "replace")


def _found(config: Path, alias: str, known_hosts: Sequence[Path]) -> Found:
    if re.search(r"[\x00-\x20\x7f]", alias) or alias.startswith("-"):
        return Found(alias, alias, problems=("the name cannot be used on a command line, give the host another one",))
    # Canonicalising asks the name server; IgnoreUnknown lets options of other systems (UseKeychain) pass.
    options = ("-o", "CanonicalizeHostname=no", "-o", "IgnoreUnknown=*")
    code, printed, error = _run("ssh", "-F", str(config), *options, "-G", "--", alias)
    if code != 0:
        return Found(alias, alias, problems=(f"ssh cannot read it: {error or f'exit code {code}'}",))
    values = effective(printed)
    problems = [_NO_WAY] if _one(values, "proxycommand") else []
    notes = [sentence for keyword, sentence in _LEFT_OUT.items() if _one(values, keyword)]
    address, port = _one(values, "hostname") or alias, int(_one(values, "port") or 22)
    keys = _host_keys(_one(values, "hostkeyalias") or address, port, known_hosts, problems, notes)
    return Found(
        alias=alias,
        address=address,
        port=port,
        user=_one(values, "user") or "",
        identity_files=_identity_files(alias, values, notes),
        proxy_jump=_one(values, "proxyjump"),
        host_keys=keys,
        problems=tuple(problems),
        notes=tuple(dict.fromkeys(notes)),
    )


def effective(printed: str) -> dict[str, list[str]]:
    """Read the `keyword value` lines of `ssh -G`; a keyword can come several times."""
    values: dict[str, list[str]] = {}
    for line in printed.splitlines():
        keyword, _, value = line.partition(" ")
        values.setdefault(keyword.lower(), []).append(value.strip())
    return values


def _one(values: Mapping[str, Sequence[str]], keyword: str) -> str | None:
    value = next(iter(values.get(keyword, ())), "")
    return value if value and value.lower() != "none" else None


def _identity_files(alias: str, values: Mapping[str, Sequence[str]], notes: list[str]) -> tuple[Path, ...]:
    """Return the key files that exist. ssh tells its own defaults too: only one that was written out is missed."""
    tokens = {"%": "%", "d": str(_home()), "u": pwd.getpwuid(getuid()).pw_name, "n": alias}
    tokens |= {"h": _one(values, "hostname") or alias, "p": _one(values, "port") or "", "r": _one(values, "user") or ""}
    files: list[Path] = []
    for written in values.get("identityfile", ()):
        name = _expand_home(re.sub(r"%([%dunhpr])", lambda found: tokens[found[1]], written))
        if written.lower() == "none":
            continue
        if name and Path(name).is_file():
            files.append(Path(name))
        elif not _DEFAULT_KEY.fullmatch(written):
            notes.append(f"the key file {written} is not there")
    return tuple(files)


def _host_keys(
    name: str, port: int, known_hosts: Sequence[Path], problems: list[str], notes: list[str]
) -> tuple[str, ...]:
    """Look the host up by ssh-keygen, which also finds hashed names. Authorities and revoked keys are no host keys."""
    wanted = name if port == 22 else f"[{name}]:{port}"
    keys: list[str] = []
    revoked: set[str] = set()
    for path in known_hosts:
        _, printed, _ = _run("ssh-keygen", "-F", wanted, "-f", str(path.absolute()))
        for marker, key in known_keys(printed):
            if marker == "@revoked":
                revoked.add(key)
            elif marker == "@cert-authority":
                notes.append("host certificates are not supported, only host keys of its own")
            else:
                keys.append(key)
    if revoked:
        problems.append("known_hosts marks a key of this host as revoked")
    return tuple(key for key in dict.fromkeys(keys) if key not in revoked)


def known_keys(printed: str) -> list[tuple[str, str]]:
    """Read what `ssh-keygen -F` prints into pairs of marker (or nothing) and `type base64`; see sshd(8)."""
    found: list[tuple[str, str]] = []
    for line in printed.splitlines():
        words = line.split()
        marker = words.pop(0) if words[:1] and words[0].startswith("@") else ""
        if len(words) >= 3 and not words[0].startswith("#"):
            found.append((marker, f"{words[1]} {words[2]}"))
    return found


def _run(*command: str) -> tuple[int, str, str]:
    """Run OpenSSH without a shell and return exit code, output and the last line of its complaint."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=_ENVIRONMENT,
            timeout=_TIMEOUT,
            check=False,
            encoding="utf-8",
            errors="replace",
        )
    except FileNotFoundError:
        raise ImportRefused(f"{command[0]} is not installed here: install the package openssh-client.") from None
    except subprocess.TimeoutExpired:
        return 124, "", f"no answer within {_TIMEOUT} s"
    return done.returncode, done.stdout, (done.stderr.strip().splitlines() or [""])[-1]
