"""What all management commands share: exit codes, errors as one plain sentence, JSON as one document."""

from __future__ import annotations

import json
import logging
import os
import pwd
import sys
from typing import TYPE_CHECKING, Any, ClassVar

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, handle_default_options
from django.db import DatabaseError, InterfaceError

from jobs import registry
from jobs.models import Door
from jobs.services import Asker, Refused

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Iterable, Sequence

SUCCEEDED, FAILED, WRONG_USE, BUSY, CANCELLED, PENDING = range(6)
INTERRUPTED = 130
CODES = {"invalid": WRONG_USE, "busy": BUSY}
EXIT_CODES = (
    "exit codes: 0 succeeded, 1 failed, 2 wrong use, 3 already active or lane busy, 4 cancelled, 5 still pending; "
    "of several jobs the first of 2, 1, 4, 3, 5, 0 that occurs"
)
WORST_FIRST = (WRONG_USE, FAILED, CANCELLED, BUSY, PENDING, SUCCEEDED)


class Ended(CommandError):
    """The command has said what there is to say and ends with `returncode`."""

    def __init__(self, code: int) -> None:
        super().__init__(f"exit code {code}", returncode=code)


class DoorCommand(BaseCommand):
    """A command whose `work` returns its exit code, and whose errors are one sentence.

    `troubles` are further exceptions whose text is such a sentence.
    """

    requires_system_checks: list[str] = []  # the checks cost a second and belong to migrate
    suppressed_base_arguments: set[str] = {
        "--version", "--verbosity", "--settings", "--pythonpath", "--traceback", "--no-color", "--force-color",
        "--skip-checks",
    }  # fmt: skip
    troubles: ClassVar[tuple[type[Exception], ...]] = ()

    def work(self, **options: Any) -> int:
        """Do what the command is for; returns the exit code. Raises CommandError or Refused."""
        raise NotImplementedError

    def trouble_code(self, error: Exception) -> int:
        """The exit code for one of `troubles`."""
        return FAILED

    def handle(self, *args: Any, **options: Any) -> None:
        """Turn every expected error into CommandError with the contract's exit code."""
        try:
            code = self.work(**options)
        except CommandError:
            raise
        except Refused as refusal:
            raise CommandError(str(refusal), returncode=CODES.get(refusal.code, FAILED)) from None
        except ValidationError as error:
            raise CommandError(first_error(error), returncode=WRONG_USE) from None
        except (DatabaseError, InterfaceError) as error:
            raise CommandError(database_words(error), returncode=FAILED) from None
        except UnicodeEncodeError:  # the shell hands over bytes as they are; no row can be named by them
            raise CommandError("A word given here is no UTF-8 text: write it in UTF-8.", returncode=WRONG_USE) from None
        except self.troubles as error:
            raise CommandError(str(error), returncode=self.trouble_code(error)) from None
        if code:
            raise Ended(code)

    def run_from_argv(self, argv: list[str]) -> None:
        """Run for a shell and exit with the code."""
        logging.getLogger().setLevel(logging.ERROR)  # what a person must know, the command says itself
        sys.exit(self.exit_code(argv))

    def exit_code(self, argv: list[str]) -> int:
        """Run with the words of a command line; returns the exit code, errors are on stderr."""
        try:
            self._run(argv)
        except Ended as end:
            return end.returncode
        except CommandError as error:
            self.stderr.write(str(error))
            return error.returncode
        except KeyboardInterrupt:
            return INTERRUPTED
        except BrokenPipeError:  # the reader (head, less) has gone; nothing may be flushed into it at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return FAILED
        return SUCCEEDED

    def _run(self, argv: list[str]) -> None:
        parser = self.create_parser("herder", argv[1])
        try:
            options = parser.parse_args(argv[2:])
        except CommandError as error:
            raise CommandError(usage_sentence(str(error), argv[1]), returncode=WRONG_USE) from None
        handle_default_options(options)
        given = vars(options)
        self.execute(*given.pop("args", ()), **given)
        sys.stdout.flush()

    def emit(self, document: object) -> None:
        """Print one JSON document; moments in ISO 8601."""
        self.stdout.write(json.dumps(document, indent=2, ensure_ascii=False, default=plain))

    def hint(self, text: str) -> None:
        """One line for the person that is no result: on stderr, so that it never mixes with output."""
        self.stderr.write(self.style.NOTICE(text) if self.stderr.isatty() else text)


def plain(value: Any) -> str:
    """JSON for moments and whatever else has a text form."""
    return str(value.isoformat()) if hasattr(value, "isoformat") else str(value)


def usage_sentence(message: str, command: str) -> str:
    """argparse's complaint as one sentence."""
    text = message.removeprefix("Error: ").strip().rstrip(".")
    return f"{text[:1].upper()}{text[1:]}: see herder {command} --help."


def first_error(error: ValidationError) -> str:
    """The first complaint of a validation, with the field's name."""
    if not hasattr(error, "error_dict"):
        return error.messages[0]
    field, texts = next(iter(error.message_dict.items()))
    return texts[0] if field == "__all__" else f"{field.replace('_', ' ')}: {texts[0]}"


def database_words(error: DatabaseError | InterfaceError) -> str:
    """One sentence about a database that does not do as asked."""
    text = (str(error).strip().splitlines() or ["no reason given"])[0]
    missing = "no such table" in text or ("relation" in text and "does not exist" in text)
    if missing:
        return f"The database is empty or older than this version ({text}): run ./herder migrate."
    return f"The database cannot be used ({text}): check that it runs, then try again."


def add_json(parser: ArgumentParser) -> None:
    """The option `--json`."""
    parser.add_argument("--json", action="store_true", dest="as_json", help="print one JSON document and nothing else")


def me() -> Asker:
    """The person at this shell."""
    uid = os.getuid()
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:  # a container's user need not have a name
        name = f"uid {uid}"
    return Asker(Door.COMMAND, name=name)


def host_ids(names: Iterable[str]) -> dict[str, int]:
    """Ids of hosts by name, in the order given. Raises CommandError naming those that exist."""
    ids = {name: pk for pk, name in registry.gate().herd().items()}
    wanted = list(dict.fromkeys(names))
    for name in wanted:
        if name not in ids:
            raise CommandError(unknown_host(name, sorted(ids)), returncode=WRONG_USE)
    return {name: ids[name] for name in wanted}


def unknown_host(name: str, known: Sequence[str]) -> str:
    """One sentence for a host that is not there."""
    if not known:
        return f"There is no host called {name}: add one with ./herder add_host."
    listed = ", ".join(known[:10]) + (" …" if len(known) > 10 else "")
    return f"There is no host called {name}: known are {listed}."


def worst(codes: Iterable[int]) -> int:
    """The exit code of several jobs, by `WORST_FIRST`."""
    found = set(codes)
    return next((code for code in WORST_FIRST if code in found), SUCCEEDED)
