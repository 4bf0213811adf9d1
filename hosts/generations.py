"""Generations as the database knows them: begin, publish, reconcile with the disk. Every change names what it saw."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, Max, OuterRef, QuerySet
from django.utils import timezone

from hosts.models import Generation, GenerationStatus, Source
from hosts.store.layout import GenerationInfo, generation_name, list_generations, next_sequence
from hosts.store.root import check

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hosts.models import BackupRoot
    from jobs.registry import Run

GONE = "Its folder is gone from the backup disk."


def newest_good(source: Source) -> Generation | None:
    """The generation that the next one is linked against, if its folder is there."""
    good = source.generations.filter(status=GenerationStatus.GOOD).select_related("root", "source__host")
    return next((found for found in good.order_by("-sequence") if found.path.is_dir()), None)


def damaged() -> QuerySet[Generation]:
    """Good generations in which damage was found, unless a newer one of the source was read whole and is as written.

    Each may hold the same file by a hard link, so a newer one of which only a share was read proves nothing. What was
    answered stays so when that newer one is gone.
    """
    whole = Generation.objects.filter(
        source=OuterRef("source"),
        sequence__gt=OuterRef("sequence"),
        status=GenerationStatus.GOOD,
        verified_whole_at__isnull=False,
        verify_problem="",
    )
    return _with_damage().filter(damage_answered_at__isnull=True).exclude(Exists(whole))


def _with_damage() -> QuerySet[Generation]:
    return Generation.objects.filter(status=GenerationStatus.GOOD).exclude(verify_problem="")


def is_doubtful(base: Generation) -> bool:
    """Whether damage was found in this generation, or in one as new: it may have the same files by hard links.

    One that was made later is none: it was compared with the host when it was made. That a later one was read whole
    makes the files of this one no better.
    """
    return _with_damage().filter(source=base.source_id, sequence__gte=base.sequence).exists()


def on_disk(rows: Iterable[Generation]) -> list[Generation]:
    """Without those whose folder is gone: one that cannot be restored must not take the place of one that can.

    Of a disk that is not mounted now every row counts, and so does one that the disk cannot say anything of.
    """
    there: dict[int, bool] = {}

    def is_mounted(root: BackupRoot) -> bool:
        if root.pk not in there:
            there[root.pk] = check(Path(root.path), settings.PIHERDER_INSTALL_ID, root.marker.hex).usable
        return there[root.pk]

    return [row for row in rows if _is_there(row) or not is_mounted(row.root)]


def _is_there(row: Generation) -> bool:
    try:
        return row.path.is_dir()
    except OSError:
        return True


def reconcile(source: Source, root: BackupRoot, folder: Path) -> None:
    """Bring rows and disk together after a job that was killed; the caller holds the folder's lock.

    A generation that was renamed but not yet marked good becomes good: it was complete. Rows of unfinished ones go;
    what they wrote is taken over by the next run. Rows of another root are left for a run that has that disk at hand.
    """
    unfinished = list(source.generations.filter(status=GenerationStatus.WRITING, root=root))
    there = {found.sequence: found for found in list_generations(folder)} if unfinished else {}
    for row in unfinished:
        found = there.get(row.sequence)
        if found is not None and found.info is not None and found.path.name == row.folder:
            mark_good(row, found.info)
        else:
            row.delete()


def begin(source: Source, root: BackupRoot, folder: Path, run: Run, *, fake_super: bool) -> Generation:
    """The row of a generation that is being written. Its sequence lies above all of the database and of the disk."""
    highest = source.generations.aggregate(top=Max("sequence"))["top"] or 0
    now = timezone.now()
    sequence = max(highest + 1, next_sequence(folder))
    return Generation.objects.create(
        source=source,
        sequence=sequence,
        folder=generation_name(sequence, now),
        root=root,
        job_id=run.job_id,
        attempt=uuid.UUID(run.attempt),
        started_at=now,
        fake_super=fake_super,
    )


def forget(row: Generation) -> None:
    """Remove the row of a generation that was not published; a published one stays."""
    Generation.objects.filter(pk=row.pk, status=GenerationStatus.WRITING).delete()


def mark_good(row: Generation, info: GenerationInfo, **more: Any) -> bool:
    """Writing → good, with what the disk says; the source's date moves with it. False when the row had moved on."""
    fields = {
        "status": GenerationStatus.GOOD,
        "finished_at": info.finished,
        "files": info.files,
        "bytes": info.bytes,
        "changed_files": info.changed,
        "rsync_code": info.rsync_code,
        "warnings": list(info.warnings),
        **more,
    }
    with transaction.atomic():
        mine = Generation.objects.filter(pk=row.pk, status=GenerationStatus.WRITING)
        if not mine.update(**fields):
            return False
        Source.objects.filter(pk=row.source_id).update(last_good_at=info.finished, accept_shrink=False)
    return True
