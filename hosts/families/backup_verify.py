"""`backup_verify`: a rotating share of the newest generations read again, a sample restored to scratch and compared."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

from django import forms
from django.utils import timezone

from hosts.copying import own_folder
from hosts.family import HostFamily, host_of
from hosts.generations import newest_good
from hosts.models import Generation, GenerationStatus
from hosts.roots import mounted
from hosts.store.verify import SampleReport, VerifyReport, restore_sample, verify
from hosts.words import count, size
from jobs.patience import patiently
from jobs.registry import JobFailed, Run, Summary, register

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hosts.models import Host, Source

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

    def schedule_skip(self, host_id: int) -> str:
        """A host without generations has nothing to verify."""
        good = Generation.objects.filter(source__host_id=host_id, status=GenerationStatus.GOOD)
        return "" if good.exists() else "it has no backups yet"

    def run(self, run: Run) -> Summary:
        """Raises JobFailed when anything read or restored was not as written."""
        host = host_of(run)
        sources = patiently(lambda: list(host.sources.select_related("host")))
        found = [(source, newest) for source in sources if (newest := newest_good(source))]
        if not found:
            raise JobFailed(f"{host.name} has no good generation to verify: back it up first.")
        share = run.params.get("share") or SHARE
        results = [_one(run, host, source, newest, share) for source, newest in found]
        problems = [problem for _, _, problem in results if problem]
        result = {"sources": [source.path for source, _ in found], "problems": problems}
        if problems:
            raise JobFailed(problems[0], result=result)
        files, read = sum(files for files, _, _ in results), sum(read for _, read, _ in results)
        return Summary(f"{count(files, 'file')} ({size(read)}) read or restored and compared: all as written.", result)


def _one(run: Run, host: Host, source: Source, newest: Generation, share: float) -> tuple[int, int, str]:
    """Files and bytes proven, and a sentence when something was wrong."""
    run.step(f"verify {source.path}"[:100])
    disk = mounted(newest.root)
    with own_folder(disk, host.name) as folder, _scratch(folder, run) as scratch:
        report = verify(
            newest.path,
            share,
            cursor=newest.verify_cursor,
            max_bytes=MOST_BYTES,
            check=run.check_cancel,
            on_progress=lambda files, done: run.progress(files, None, f"{source.path}: {size(done)} read"),
        )
        run.log(f"{source.path}: {report.sentence()}")
        sample = restore_sample(newest.path, scratch, SAMPLE, check=run.check_cancel)
    problem = _problem(source, newest, report, sample)
    patiently(lambda: _note(newest, report, sample, problem))
    run.log(problem or f"{source.path}: {count(sample.files, 'file')} restored to scratch and compared.")
    return report.checked + sample.files, report.bytes + sample.bytes, problem


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


def _problem(source: Source, newest: Generation, report: VerifyReport, sample: SampleReport) -> str:
    """A sentence, or ""."""
    if report.ok and not sample.problems:
        return ""
    what = report.sentence() if not report.ok else sample.problems[0]
    return f"Generation {newest.sequence} of {source.path} is damaged: {what} Back it up again and look at the disk."


def _note(newest: Generation, report: VerifyReport, sample: SampleReport, problem: str) -> None:
    """What host and generation show: last proven restorable, or the problem."""
    fields: dict[str, object] = {"verify_cursor": report.cursor, "verify_problem": problem[:300]}
    if not problem:
        proven = {"verified_files": report.checked + sample.files, "verified_bytes": report.bytes + sample.bytes}
        fields |= {"verified_at": timezone.now(), **proven}
    Generation.objects.filter(pk=newest.pk).update(**fields)
