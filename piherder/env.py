"""The only place that reads the environment: every variable of an installation, its default and its meaning."""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

DEBUG_TRUE = {"1", "true", "yes", "on"}


class BadEnvironment(Exception):
    """A variable holds something that cannot be used; the text says which and what to write instead."""


def text(name: str, default: str = "") -> str:
    """Value of `name`, stripped; `default` when unset or blank."""
    return os.environ.get(name, "").strip() or default


def flag(name: str, default: bool = False) -> bool:
    """Value of `name` as yes or no."""
    value = text(name)
    return value.lower() in DEBUG_TRUE if value else default


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
    """Content of the secret file `name` in the data folder; made with a random value (0600) when it is not there."""
    path = data_folder() / name
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        _create_once(path, secrets.token_urlsafe(48))
    return path.read_text(encoding="ascii").strip()


def _create_once(path: Path, value: str) -> None:
    """Write a complete file under `path` unless another process was first (link never overwrites)."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as handle:
        handle.write(value + "\n")
        handle.flush()
        os.fsync(handle.fileno())
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink()


@dataclass(frozen=True, slots=True)
class Database:
    """A database address taken apart; `engine` is "postgresql" or "sqlite3"."""

    engine: str
    name: str
    user: str = ""
    password: str = ""
    host: str = ""
    port: str = ""


def database() -> Database:
    """DATABASE_URL taken apart: `postgresql://user:password@host:port/name` or `sqlite:////absolute/path`.

    Raises BadEnvironment for any other scheme.
    """
    url = text("DATABASE_URL", f"sqlite:///{data_folder() / 'db.sqlite3'}")
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        return Database("sqlite3", unquote(parts.path[1:] if parts.path.startswith("//") else parts.path))
    if parts.scheme not in {"postgres", "postgresql"}:
        raise BadEnvironment("DATABASE_URL must start with postgresql:// or sqlite:///.")
    return Database(
        "postgresql",
        unquote(parts.path.lstrip("/")),
        unquote(parts.username or ""),
        unquote(parts.password or ""),
        unquote(parts.hostname or ""),
        str(parts.port or ""),
    )


def redis_url() -> str:
    """REDIS_URL, else the socket of the embedded server of this data folder.

    The server notes its address in `redis/address` when the folder's path is too long for a socket.
    """
    folder = data_folder() / "redis"
    noted = folder / "address"
    default = noted.read_text(encoding="utf-8").strip() if noted.is_file() else f"unix://{folder / 'redis.sock'}"
    return text("REDIS_URL", default)


def broker_url() -> str:
    """REDIS_URL in the spelling of Celery's transport (`redis+socket://` for a Unix socket)."""
    url = redis_url()
    return "redis+socket://" + url.removeprefix("unix://") if url.startswith("unix://") else url


def use_settings() -> None:
    """Name the settings module for Django unless the caller named another."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "piherder.settings")
