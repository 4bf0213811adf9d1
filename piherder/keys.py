"""What must be true of the secret keys before anything starts, and which columns the master key has sealed."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from django.apps import apps
from django.conf import settings
from django.db import DatabaseError, connection

from piherder import env
from piherder.key_file import KeyFile

if TYPE_CHECKING:
    from collections.abc import Collection

    from django.db.models import Model

MAKE = 'python3 -c "import secrets; print(secrets.token_urlsafe(48))"'
SHORTEST, FEWEST = 32, 8  # characters, and different ones among them
EXAMPLES = ("changeme", "change-me", "change_me", "insecure", "example", "your-", "replace", "password", "secret-key")
SEALED = (
    ("hosts.Credential", "private_key_sealed"),
    ("hosts.Host", "sudo_password_sealed"),
    ("piherder.Authenticator", "key_sealed"),
)
"""Every column that holds what the master key sealed; a test holds this list against all models."""
MAY_LACK_A_KEY = {"herder_restore"}  # it brings the key back
MAY_BE_WEAK = {"rotate_master_key", "herder_restore"}  # it makes a better one


def sealed_columns() -> list[tuple[type[Model], str]]:
    """`SEALED` with the models themselves."""
    return [(apps.get_model(name), column) for name, column in SEALED]


def is_weak(secret: str) -> bool:
    """Whether a key is short, made of few characters, a repetition, or taken over from an example."""
    few = len(secret) < SHORTEST or len(set(secret)) < FEWEST
    repeated = secret in (secret + secret)[1:-1]
    return few or repeated or any(word in secret.lower() for word in EXAMPLES)


def require(command: str = "") -> None:
    """Make the master key of a fresh installation. Raises BadEnvironment, in one sentence with the line that helps, for
    weak keys and for a key that is gone while the database holds secrets.

    `command` is the management command that starts, "" for anything else.
    """
    keys = settings.PIHERDER_MASTER_KEYS
    if isinstance(keys, KeyFile) and not keys and command not in MAY_LACK_A_KEY:
        _make(keys)
    if command not in MAY_BE_WEAK:
        _refuse_weak()


def _make(keys: KeyFile) -> None:
    """The first key of an installation; no key is ever made for a database that holds secrets or cannot be asked."""
    if not keys.path.exists():
        held = holds_secrets()
        if held is None:
            return  # sealing is refused meanwhile, and the next start looks again
        if held:
            raise env.BadEnvironment(missing(keys.path))
    env.secret_file(keys.path.name)


def missing(path: Path) -> str:
    """The sentence about a master key that is gone."""
    return (
        f"{path} is missing and the database holds secrets that only it opens: put it back from your backup; if it is "
        f'lost for good, make a new one with `(umask 077; {MAKE} > "{path}")` and type every login key and sudo '
        "password again."
    )


def _refuse_weak() -> None:
    if is_weak(settings.SECRET_KEY):
        place = Path(settings.DATA) / "django.key"
        if env.text("PIHERDER_SECRET_KEY"):
            raise env.BadEnvironment(f"PIHERDER_SECRET_KEY is too weak: set it to the output of `{MAKE}`.")
        raise env.BadEnvironment(f'{place} is too weak: make a new one with `(umask 077; {MAKE} > "{place}")`.')
    keys = settings.PIHERDER_MASTER_KEYS
    if not keys or not is_weak(keys[0]):
        return
    if isinstance(keys, KeyFile):
        raise env.BadEnvironment(f"{keys.path} is too weak: replace it with `./herder rotate_master_key`.")
    raise env.BadEnvironment(
        f"PIHERDER_MASTER_KEYS is too weak: put the output of `{MAKE}` and a comma before it, then run "
        "`./herder rotate_master_key`."
    )


def holds_secrets() -> bool | None:
    """Whether the database holds anything that is sealed; None when it does not answer. Makes no database."""
    if connection.vendor == "sqlite" and not Path(str(connection.settings_dict["NAME"])).exists():
        return False
    try:
        with warnings.catch_warnings():
            # Asked while Django starts, because this decides whether it may start.
            warnings.simplefilter("ignore", RuntimeWarning)
            tables = connection.introspection.table_names()
            return any(_is_sealed(model, column, tables) for model, column in sealed_columns())
    except DatabaseError:
        return None
    finally:
        connection.close()


def _is_sealed(model: type[Model], column: str, tables: Collection[str]) -> bool:
    """Whether one column holds anything; one that an older version's tables do not have holds nothing."""
    table = model._meta.db_table
    if table not in tables:
        return False
    with connection.cursor() as cursor:
        columns = [found.name for found in connection.introspection.get_table_description(cursor, table)]
    return column in columns and model._base_manager.exclude(**{column: ""}).exists()
