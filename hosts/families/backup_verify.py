"""`backup_verify`: a rotating share of the newest generations read again, a sample restored to scratch and compared."""

from __future__ import annotations

import errno
import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django import forms
from django.utils import timezone

from hosts import generations
from hosts.copying import own_folder
from hosts.family import HostFamily, host_of
from hosts.models import Generation, GenerationStatus
from hosts.roots import mounted
from hosts.store.paths import StoreError
from hosts.store.verify import restore_sample, verify
from hosts.words import count, size
from jobs.models import Failure
from jobs.patience import patiently
from jobs.registry import JobFailed, Run, Summary, register

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hosts.models import Host

SHARE = 0.1
MOST_BYTES = 20 << 30  # per source and run
SAMPLE = 20  # files restored to scratch per source
SCRATCH = ".verify-"


class VerifyForm(forms.Form):
    """Parameters of `backup_verify`."""

    share = forms.FloatField(required=False, min_value=0.01, max_value=1, help_text="Share of the files to read again.")


@register
class BackupVerify(HostFamily):
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
        proofs = [_one(run, host, newest, share) for newest in found]
        problems = [proof.problem for proof in proofs if proof.problem]
        result = {"sources": [newest.source.path for newest in found], "problems": problems}
        if problems:
            raise JobFailed(problems[0], result=result)
        return Summary(_evidence(proofs), result)


@dataclass(frozen=True, slots=True)
class Proof:
    """What was read of one generation. `problem` is a sentence, or ""; `cursor` is where the next run goes on;
    `whole` says that all of it was read.

    `files` were compared with their checksums, `unknown` were read but have none; `bytes` were read.
    """

    files: int = 0
    unknown: int = 0
    bytes: int = 0
    cursor: str = ""
    problem: str = ""
    whole: bool = False


def _evidence(proofs: list[Proof]) -> str:
    """The summary: what was compared, and how many files cannot be."""
    files, unknown, read = (sum(getattr(proof, name) for proof in proofs) for name in ("files", "unknown", "bytes"))
    compared = f"{count(files, 'file')} ({size(read)}) read or restored and compared: all as written."
    said = compared if files else "Nothing was proven: no file was compared."
    has = "has" if unknown == 1 else "have"
    return f"{said} {count(unknown, 'file')} {has} no checksum to compare with." if unknown else said


def _newest(host: Host) -> list[Generation]:
    """The newest good generation of each source, also one whose folder is gone: that must come to light."""
    good = Generation.objects.filter(source__host=host, status=GenerationStatus.GOOD)
    rows = good.select_related("root", "source__host").order_by("source__path", "-sequence")
    newest: dict[int, Generation] = {}
    for row in rows:
        newest.setdefault(row.source_id, row)
    return list(newest.values())


def _one(run: Run, host: Host, newest: Generation, share: float) -> Proof:
    """Prove one generation and note the result on it. Raises JobFailed when the disk is away or full."""
    path = newest.source.path
    run.step(f"verify {path}"[:100])
    disk = mounted(newest.root)
    cursor = patiently(lambda: _cursor(newest))
    most: int | None = MOST_BYTES
    if patiently(lambda: _is_damaged(newest)):
        run.log(f"{path}: damage was found before, so all of it is read.")
        share, most = 1.0, None
    with own_folder(disk, host.name) as folder:
        try:
            proof = _prove(run, newest, share, most, cursor, folder)
        except (StoreError, OSError) as error:
            if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
                raise JobFailed(f"There is no room for a sample at {folder}: free some.", Failure.NO_SPACE) from None
            proof = Proof(cursor=cursor, problem=_words(newest, str(error)))
    if proof.problem:
        mounted(newest.root)  # a disk that went away meanwhile is no damage
    patiently(lambda: _note(newest, proof))
    if proof.problem:
        run.log(proof.problem)
    return proof


def _is_damaged(newest: Generation) -> bool:
    """Whether damage of this source is open: it lies in one file, which a share of the others says nothing of."""
    return generations.damaged().filter(source=newest.source_id).exists()


def _cursor(newest: Generation) -> str:
    """Where the last verification of this source ended, so that new generations do not make it begin anew each time."""
    earlier = newest.source.generations.exclude(verify_cursor="").order_by("-sequence")
    return earlier.values_list("verify_cursor", flat=True).first() or ""


def _prove(run: Run, newest: Generation, share: float, most: int | None, cursor: str, folder: Path) -> Proof:
    """Read a share, `most` bytes of it, and restore a sample. Raises StoreError, OSError."""
    path = newest.source.path
    if not newest.path.is_dir():
        raise StoreError("its folder is not on the backup disk any more.")
    with _scratch(folder, run) as scratch:
        report = verify(
            newest.path,
            share,
            cursor=cursor,
            max_bytes=most,
            check=run.check_cancel,
            on_progress=lambda files, done: run.progress(files, None, f"{path}: {size(done)} read"),
        )
        run.log(f"{path}: {report.sentence()}")
        sample = restore_sample(newest.path, scratch, SAMPLE, check=run.check_cancel)
    run.log(f"{path}: {count(sample.files, 'file')} restored to scratch and compared.")
    what = report.sentence() if not report.ok else " ".join(sample.problems[:1])
    problem = _words(newest, what) if what else ""
    unknown, read = report.without_checksum, report.bytes + sample.bytes
    compared = report.checked - unknown + sample.files
    return Proof(compared, unknown, read, report.cursor, problem, whole=report.complete)


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

    A problem that was found stays until the whole generation was read and is as written.
    """
    fields: dict[str, object] = {"verify_cursor": proof.cursor}
    if proof.problem or proof.whole:
        fields["verify_problem"] = proof.problem[:300]
    if proof.files and not proof.problem:
        fields |= {"verified_at": timezone.now(), "verified_files": proof.files, "verified_bytes": proof.bytes}
    Generation.objects.filter(pk=newest.pk).update(**fields)
