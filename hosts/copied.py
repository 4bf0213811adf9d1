"""What became of the sources of one backup, and of the whole run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from django.utils import timezone

from hosts.models import Host
from hosts.words import count, size
from jobs.patience import patiently
from jobs.registry import JobFailed, Summary

if TYPE_CHECKING:
    from hosts.models import Source


@dataclass(slots=True)
class Copied:
    """What became of one source."""

    source: Source
    code: str = ""
    sentence: str = ""
    generation: str = ""
    numbers: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """For the job's result."""
        words = {"path": self.source.path, "ok": not self.code, "sentence": self.sentence}
        return {**words, "generation": self.generation, **self.numbers}


def require_all(results: list[Copied]) -> None:
    """Raises JobFailed when a source failed, naming the first."""
    failed = [copied for copied in results if copied.code]
    if failed:
        share = f"{len(failed)} of {len(results)} sources failed. " if len(results) > 1 else ""
        raise JobFailed(share + failed[0].sentence, failed[0].code, _result(results))


def _result(results: list[Copied]) -> dict[str, Any]:
    return {"sources": [copied.to_json() for copied in results]}


def _move_date(host: Host, results: list[Copied]) -> None:
    copied = [each.source.pk for each in results]
    if not host.sources.filter(enabled=True).exclude(pk__in=copied).exists():
        Host.objects.filter(pk=host.pk).update(last_backup_at=timezone.now())


def summary(host: Host, results: list[Copied], more: str = "") -> Summary:
    """The evidence of the whole run; `more` is a further sentence. The host's date moves when nothing was left out."""
    patiently(lambda: _move_date(host, results))
    files, changed = (sum(copied.numbers[key] for copied in results) for key in ("files", "changed"))
    total = size(sum(copied.numbers["bytes"] for copied in results))
    notes = sum(bool(copied.numbers["warnings"]) for copied in results)
    told = f"; {notes} with warnings" if notes else ""
    text = f"{count(len(results), 'source')}, {count(files, 'file')}, {total}, {changed:,} changed{told}."
    return Summary(f"{text} {more}".rstrip(), _result(results))
