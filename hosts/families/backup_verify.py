"""`backup_verify`: a rotating share of the newest generations read again, a sample restored to scratch and compared."""

from __future__ import annotations

import errno
import shutil
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from django import forms
from django.db import DatabaseError, transaction
from django.utils import timezone

from hosts import generations
from hosts.copying import own_folder
from hosts.family import BackupFamily, host_of
from hosts.models import Generation, GenerationStatus
from hosts.roots import mounted
from hosts.store.paths import StoreError
from hosts.store.verify import SampleReport, VerifyReport, restore_sample, verify
from hosts.words import count, size
from jobs.models import Failure
from jobs.patience import patiently
from jobs.registry import JobFailed, Run, StopWork, Summary, register

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hosts.models import Host

SHARE = 0.1
MOST_BYTES = 20 << 30  # per source and run
# Per source and run while damage is open: an hour at the 30 MB/s of a slow disk, half of the usual limit.
WHOLE_BYTES = 100 << 30
SAMPLE = 20  # files restored to scratch per source
SCRATCH = ".verify-"


class VerifyForm(forms.Form):
    """Parameters of `backup_verify`."""

    share = forms.FloatField(required=False, min_value=0.01, max_value=1, help_text="Share of the files to read again.")


@register
class BackupVerify(BackupFamily):
    """Prove that the newest generation of each source can be read and restored."""

    kind, label = "backup_verify", "Verify backups"
    lanes = ("backup",)
    mutex = True
    reaches = False
    task = "backup_job"
    form_class = VerifyForm
    leaves_a_slot = True
    catch_up = True

    def schedule_skip(self, host_id: int) -> str:
        """A host without generations has nothing to verify."""
        good = Generation.objects.filter(source__host_id=host_id, status=GenerationStatus.GOOD)
        return "" if good.exists() else "it has no backups yet"

    def run(self, run: Run) -> Summary:
        """Raises JobFailed when anything read or restored was not as written."""
        host = host_of(run)
        found = patiently(lambda: _newest(host))
        if not found:
            raise JobFailed(f"{host.name} has no good generation to verify: back it up first.")
        share = run.params.get("share") or SHARE
        readings = patiently(lambda: [_reading(newest, share) for newest in found])
        # What takes long comes last, so that it keeps no other source from its turn.
        proofs = [_one(run, host, reading) for reading in sorted(readings, key=lambda each: each.onward)]
        problems = [proof.problem for proof in proofs if proof.problem]
        result = {"sources": [newest.source.path for newest in found], "problems": problems}
        if problems:
            raise JobFailed(problems[0], result=result)
        return Summary(_evidence(proofs), result)


@dataclass(frozen=True, slots=True)
class Reading:
    """How much of a generation is read, at most `most` bytes from after `cursor` on.

    `onward`: damage is open, so the source is read from its first file to its last, in as many runs as that takes.
    """

    newest: Generation
    share: float
    most: int
    cursor: str
    onward: bool


def _reading(newest: Generation, share: float) -> Reading:
    if not newest.verify_problem and not generations.damaged().filter(source=newest.source_id).exists():
        return Reading(newest, share, MOST_BYTES, _cursor(newest, "verify_cursor"), onward=False)
    # Damage lies in one file, which a share of the others says nothing of.
    return Reading(newest, 1.0, WHOLE_BYTES, _cursor(newest, "whole_cursor"), onward=True)


@dataclass(frozen=True, slots=True)
class Proof:
    """What was read of one generation. `problem` is a sentence, or ""; `cursor` is where the next run goes on, of
    readings `onward` or of shares; `whole` says that with this run all of it was read; `still_open` is a sentence, or
    "".

    `files` were compared with their checksums, `unknown` were read but have none; `bytes` were read.
    """

    files: int = 0
    unknown: int = 0
    bytes: int = 0
    cursor: str = ""
    problem: str = ""
    whole: bool = False
    onward: bool = False
    still_open: str = ""


def _evidence(proofs: list[Proof]) -> str:
    """The summary: what was compared, how many files cannot be, and of which sources damage is still open."""
    files, unknown, read = (sum(getattr(proof, name) for proof in proofs) for name in ("files", "unknown", "bytes"))
    compared = f"{count(files, 'file')} ({size(read)}) read or restored and compared: all as written."
    said = compared if files else "Nothing was proven: no file was compared."
    has = "has" if unknown == 1 else "have"
    without = f"{count(unknown, 'file')} {has} no checksum to compare with." if unknown else ""
    return " ".join(filter(None, (said, without, *(proof.still_open for proof in proofs))))


def _newest(host: Host) -> list[Generation]:
    """The newest good generation of each source, also one whose folder is gone: that must come to light."""
    good = Generation.objects.filter(source__host=host, status=GenerationStatus.GOOD)
    rows = good.select_related("root", "source__host").order_by("source__path", "-sequence")
    newest: dict[int, Generation] = {}
    for row in rows:
        newest.setdefault(row.source_id, row)
    return list(newest.values())


def _one(run: Run, host: Host, reading: Reading) -> Proof:
    """Prove one generation and note the result on it, also how far a stop let it come. Raises JobFailed when the disk
    is away or full.
    """
    newest, report = reading.newest, VerifyReport()
    run.step(f"verify {newest.source.path}"[:100])
    disk = mounted(newest.root)
    if reading.onward:
        run.log(f"{newest.source.path}: damage was found before, so all of it is read.")
    with own_folder(disk, host.name) as folder:
        try:
            proof = _prove(run, reading, folder, report)
        except (StoreError, OSError) as error:
            if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
                raise JobFailed(f"There is no room for a sample at {folder}: free some.", Failure.NO_SPACE) from None
            proof = Proof(cursor=reading.cursor, problem=_words(newest, str(error)), onward=reading.onward)
        except StopWork:
            with suppress(JobFailed, DatabaseError, StopWork):  # the stop counts
                _conclude(run, newest, _part(reading, report))
            raise
    _conclude(run, newest, proof)
    return proof


def _conclude(run: Run, newest: Generation, proof: Proof) -> None:
    """Note the result. Raises JobFailed when the disk is away; StopWork when the database is, and the work must end."""
    if proof.problem:
        mounted(newest.root)  # a disk that went away meanwhile is no damage
        run.log(proof.problem)
    patiently(lambda: _note(newest, proof), run.check_cancel)


def _cursor(newest: Generation, field: str) -> str:
    """Where the last verification of this source ended, so that new generations do not make it begin anew each time."""
    earlier = newest.source.generations.exclude(**{field: ""}).order_by("-sequence")
    return earlier.values_list(field, flat=True).first() or ""


def _prove(run: Run, reading: Reading, folder: Path, report: VerifyReport) -> Proof:
    """Read what is to be read, and restore a sample. Raises StoreError, OSError."""
    newest, path = reading.newest, reading.newest.source.path
    if not newest.path.is_dir():
        raise StoreError("its folder is not on the backup disk any more.")
    with _scratch(folder, run) as scratch:
        verify(
            newest.path,
            reading.share,
            cursor=reading.cursor,
            wrap=not reading.onward,
            max_bytes=reading.most,
            check=run.check_cancel,
            on_progress=lambda files, done: run.progress(files, None, f"{path}: {size(done)} read"),
            report=report,
        )
        run.log(f"{path}: {report.sentence()}")
        sample = restore_sample(newest.path, scratch, SAMPLE, check=run.check_cancel)
    run.log(f"{path}: {count(sample.files, 'file')} restored to scratch and compared.")
    return _proof(reading, report, sample)


def _proof(reading: Reading, report: VerifyReport, sample: SampleReport) -> Proof:
    """The result. Where nothing at all has a checksum the whole is not proven; else such files do not stand in the way:
    the backup after the damage compared them with the host.
    """
    newest, compared = reading.newest, report.checked - report.without_checksum + sample.files
    part = _part(reading, report)
    problem = part.problem or " ".join(_words(newest, each) for each in sample.problems[:1])
    whole = report.complete and not problem and (compared > 0 or not newest.files)
    still_open = reading.onward and not whole and not problem
    return replace(
        part,
        files=compared,
        unknown=report.without_checksum,
        bytes=report.bytes + sample.bytes,
        cursor="" if reading.onward and report.complete else part.cursor,
        problem=problem,
        whole=whole,
        still_open=f"Damage of {newest.source.path} is still open; the next run reads on." if still_open else "",
    )


def _part(reading: Reading, report: VerifyReport) -> Proof:
    """How far the reading came, and what it found until then."""
    problem = "" if report.ok else _words(reading.newest, report.sentence())
    return Proof(cursor=report.cursor, problem=problem, onward=reading.onward)


def _words(newest: Generation, what: str) -> str:
    number, path = newest.sequence, newest.source.path
    return f"Generation {number} of {path} is damaged: {what} Back it up again and look at the disk."


@contextmanager
def _scratch(folder: Path, run: Run) -> Iterator[Path]:
    """A folder on the backup disk; what a killed run left is removed too (the caller holds the folder's lock)."""
    for left in folder.glob(f"{SCRATCH}*"):
        shutil.rmtree(left, ignore_errors=True)
    scratch = folder / f"{SCRATCH}{run.attempt}"
    scratch.mkdir(mode=0o700)
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _note(newest: Generation, proof: Proof) -> None:
    """What host and generation show: last proven restorable, or the problem. Without a comparison nothing is proven.

    A problem that was found stays until the source was read from its first file to its last and is as written; that
    also answers those of earlier generations, for good.
    """
    mine, now = Generation.objects.filter(pk=newest.pk), timezone.now()
    line = Generation.objects.filter(source=newest.source_id)
    fields: dict[str, object] = {"whole_cursor" if proof.onward else "verify_cursor": proof.cursor}
    if proof.files and not proof.problem:
        fields |= {"verified_at": now, "verified_files": proof.files, "verified_bytes": proof.bytes}
    with transaction.atomic():
        if proof.problem or proof.whole:
            line.exclude(whole_cursor="").update(whole_cursor="")
            read = None if proof.problem else now
            fields |= {"verify_problem": proof.problem[:300], "verified_whole_at": read, "damage_answered_at": None}
            fields |= {"whole_cursor": ""}
        mine.update(**fields)
        if proof.whole:
            open_ones = line.filter(sequence__lt=newest.sequence, damage_answered_at=None).exclude(verify_problem="")
            open_ones.update(damage_answered_at=now)
