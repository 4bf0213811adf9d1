"""The only place that reads the environment: every variable of an installation, its default and its meaning."""

from __future__ import annotations

import os
import secrets
import zoneinfo
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

from piherder import envfile

YES, NO = {"1", "true", "yes", "on"}, {"0", "false", "no", "off"}
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


class BadEnvironment(Exception):
    """A variable holds something that cannot be used; the text says which and what to write instead."""


def text(name: str, default: str = "") -> str:
    """Value of `name`, stripped; `default` when unset or blank."""
    return os.environ.get(name, "").strip() or default


def flag(name: str, default: bool = False) -> bool:
    """Value of `name` as yes or no.

    Raises BadEnvironment for any other word: a mistyped `PIHERDER_CLOCK_TRUSTED` must not quietly mean no.
    """
    value = text(name).lower()
    if value and value not in YES | NO:
        raise BadEnvironment(f"{name} must be yes or no, not {value!r}.")
    return value in YES if value else default


def number(name: str, default: int, low: int, high: int) -> int:
    """Value of `name` as an integer between `low` and `high` (both included).

    Raises BadEnvironment in one sentence otherwise.
    """
    value = text(name, str(default))
    try:
        parsed = int(value)
    except ValueError:
        raise BadEnvironment(f"{name} must be a whole number, not {value!r}.") from None
    if not low <= parsed <= high:
        raise BadEnvironment(f"{name} must lie between {low} and {high}, not {parsed}.")
    return parsed


def log_level(name: str, default: str) -> str:
    """Value of `name` as a level of Python's logging, in any case. Raises BadEnvironment."""
    value = text(name, default).upper()
    if value not in LEVELS:
        raise BadEnvironment(f"{name} must be one of {', '.join(LEVELS)}, not {value!r}.")
    return value


def zone(name: str, default: str) -> str:
    """Value of `name` as a time zone of the tz database; the colon that tzset(3) allows is left out.

    Raises BadEnvironment.
    """
    value = text(name, default).removeprefix(":")
    try:
        zoneinfo.ZoneInfo(value)
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        raise BadEnvironment(f"{name} must be a time zone such as Europe/Berlin, not {value!r}.") from None
    return value


def words(name: str, default: str = "") -> list[str]:
    """Value of `name` split at commas and blanks."""
    return text(name, default).replace(",", " ").split()


def data_folder() -> Path:
    """Where the installation keeps everything: database, Redis, logs, keys; never inside the clone."""
    default = "/var/lib/piherder" if os.geteuid() == 0 else "~/.local/share/piherder"
    return Path(text("PIHERDER_DATA", default)).expanduser()


def child_environment(**changes: str) -> dict[str, str]:
    """A copy of this process's environment with `changes`, for a program that we start."""
    return {**os.environ, **changes}


def secret_file(name: str) -> str:
    """Content of the secret file `name` in the data folder; made with a random value (0600) when it is not there.

    Raises BadEnvironment when it cannot be made or read, or is empty: a new value would open nothing that was sealed.
    """
    path = data_folder() / name
    try:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            _create_once(path, secrets.token_urlsafe(48))
        value = path.read_text(encoding="ascii").strip()
    except OSError as error:
        raise BadEnvironment(f"{path} cannot be made or read ({error.strerror}): look at PIHERDER_DATA.") from None
    except UnicodeError:
        value = ""
    if not value:
        raise BadEnvironment(f"{path} is empty or damaged: put back the one from your backup.")
    return value


def _create_once(path: Path, value: str) -> None:
    """Write a complete file under `path` unless another process was first (link never overwrites)."""
    draft = secret_draft(path, value)
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink()


def secret_draft(path: Path, value: str) -> Path:
    """A complete file beside `path`, synced, 0600, of the owner that the folder has; to be linked or renamed to it.

    Raises OSError.
    """
    # Not by pid: two containers that share the folder may have the same one, and would write into one draft.
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as handle:
        if os.geteuid() == 0:  # root at a shell must not lock the service's own user out
            folder = path.parent.stat()
            os.fchown(descriptor, folder.st_uid, folder.st_gid)
        handle.write(value + "\n")
        handle.flush()
        os.fsync(handle.fileno())
    return draft


@dataclass(frozen=True, slots=True)
class Database:
    """A database address taken apart; `engine` is "postgresql" or "sqlite3", `options` what stood behind the `?`."""

    engine: str
    name: str
    user: str = ""
    password: str = ""
    host: str = ""
    port: str = ""
    options: tuple[tuple[str, str], ...] = ()


def database() -> Database:
    """DATABASE_URL taken apart: `postgresql://user:password@host:port/name?sslmode=require` or
    `sqlite:////absolute/path`.

    Raises BadEnvironment for any other scheme, a port that is none, or no name; no text of it shows the password.
    """
    url = text("DATABASE_URL")
    if not url:
        return Database("sqlite3", str(data_folder() / "db.sqlite3"))
    scheme = url.partition(":")[0].lower()
    if scheme not in {"sqlite", "postgres", "postgresql"}:
        raise BadEnvironment("DATABASE_URL must start with postgresql:// or sqlite:///.")
    try:
        found = _sqlite(url) if scheme == "sqlite" else _postgresql(urlsplit(url))
    except ValueError:
        raise BadEnvironment(
            "DATABASE_URL cannot be read: write characters such as / # ? @ [ ] in the password as %2F %23 %3F …, "
            "and the port as a number."
        ) from None
    if not found.name:
        raise BadEnvironment("DATABASE_URL must end with the name of a database.")
    return found


def _sqlite(url: str) -> Database:
    path = urlsplit(url).path
    return Database("sqlite3", unquote(path[1:] if path.startswith("//") else path))


def _postgresql(parts: SplitResult) -> Database:
    """Raises ValueError for a port that is none."""
    return Database(
        "postgresql",
        unquote(parts.path.lstrip("/")),
        unquote(parts.username or ""),
        unquote(parts.password or ""),
        unquote(parts.hostname or ""),
        str(parts.port or ""),
        tuple(parse_qsl(parts.query, strict_parsing=True) if parts.query else ()),
    )


def redis_url() -> str:
    """REDIS_URL, else the socket of the embedded server of this data folder.

    The server notes its address in `redis/address` when the folder's path is too long for a socket.
    """
    folder = data_folder() / "redis"
    noted = folder / "address"
    address = noted.read_text(encoding="utf-8").strip() if noted.is_file() else ""
    return text("REDIS_URL", address or f"unix://{quote(str(folder / 'redis.sock'))}")


def broker_url() -> str:
    """REDIS_URL in the spelling of Celery's transport (`redis+socket://` for a Unix socket)."""
    url = redis_url()
    return "redis+socket://" + url.removeprefix("unix://") if url.startswith("unix://") else url


def use_file() -> None:
    """Take the variables of the file that PIHERDER_ENV_FILE names: the settings of an installed PiHerder.

    The file wins, as it does for the services, so that a command never works on another installation than they do.
    Raises BadEnvironment when it cannot be read.
    """
    path = text("PIHERDER_ENV_FILE")
    if not path:
        return
    try:
        os.environ.update(envfile.parse(Path(path).read_text(encoding="utf-8")))
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise BadEnvironment(f"The settings in {path} cannot be read: {reason}.") from None


def use_settings() -> None:
    """Take the settings file where one is named, and name Django's settings module unless the caller named another."""
    use_file()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "piherder.settings")
