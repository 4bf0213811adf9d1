"""`backup`: each source copied by rsync into a new generation, which takes its name only when it is whole."""

from __future__ import annotations

import errno
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django import forms
from django.conf import settings
from django.db import DatabaseError
from django.utils import timezone

from hosts import generations, hooks, nested
from hosts.checksums import Checksums
from hosts.copied import Copied, require_all, summary
from hosts.copying import Way, code_of, copy, own_folder, refuse_busy, shown, way_to
from hosts.coverage import not_covered, stays_on_one
from hosts.family import BackupFamily, host_of
from hosts.meter import Meter
from hosts.models import BackupRoot, Host, Source
from hosts.roots import mounted, require_able, require_space, root_of
from hosts.rsync.command import Backup as Pull
from hosts.rsync.command import Options
from hosts.rsync.outcome import Kind, Verdict
from hosts.store.layout import TREE, GenerationInfo, Partial, publish, seal, take_over
from hosts.store.lock import COPY_LOCK
from hosts.store.paths import StoreError, decode_name
from hosts.words import count, size
from jobs.models import Failure
from jobs.patience import patiently
from jobs.registry import JobFailed, NotYet, Run, StopWork, Summary, register

if TYPE_CHECKING:
    from pathlib import Path

    from hosts.models import Generation
    from hosts.rsync.run import Finished
    from jobs.registry import Params

HASH_HERE = 256 << 20  # bytes of files without a checksum, as an interrupted run leaves them, that a run reads for one
FULL = (errno.ENOSPC, errno.EDQUOT)
BUSY_WAITS = (2.0, 5.0, 10.0, 20.0, 30.0)  # seconds between the tries of a source whose lock another copy holds
SMALL = 10  # a source with fewer files may shrink as it likes, unless to nothing


class BackupForm(forms.Form):
    """Parameters of `backup`."""

    sources = forms.CharField(required=False, help_text="Paths to back up now, one per line; all when empty.")
    accept_shrink = forms.BooleanField(required=False, help_text="Yes, the sources are meant to be so much smaller.")


@dataclass(frozen=True, slots=True)
class Place:
    """Where one run of one host writes."""

    run: Run
    way: Way
    root: BackupRoot
    folder: Path  # the host's folder in the root
    accept_shrink: bool
    within: dict[str, tuple[str, ...]]  # by a source's path, where backup roots lie in it
    closed: tuple[str, ...]  # names of the files that keep rsync out of our roots


@register
class Backup(BackupFamily):
    """Copy the sources of a host; each is a generation of its own, and one that fails takes no other with it."""

    kind, label = "backup", "Back up"
    lanes = ("backup",)
    mutex = True
    task = "backup_job"
    form_class = BackupForm
    leaves_a_slot = True
    catch_up = True

    def lanes_of(self, host_id: int | None, params: Params) -> tuple[str, ...]:
        """With hooks that stop containers a backup also keeps compose away."""
        touches = Host.objects.filter(pk=host_id or 0, hooks_touch_stacks=True).exists()
        return (*self.lanes, "stack") if touches else self.lanes

    def schedule_skip(self, host_id: int) -> str:
        """A host without sources has nothing to back up."""
        there = Source.objects.filter(host_id=host_id, enabled=True).exists()
        return "" if there else "it has no sources"

    def run(self, run: Run) -> Summary:
        """Raises JobFailed when any source failed; the others keep their new generations."""
        host = host_of(run)
        sources = patiently(lambda: wanted(host, run.params.get("sources", "")))
        root = root_of(host)
        disk = mounted(root)
        require_space(disk)
        require_able(root, disk)
        roots = patiently(lambda: list(BackupRoot.objects.all()))
        with own_folder(disk, host.name) as folder, way_to(host, run, nested.look(roots, sources)) as way:
            within = nested.within(way.said, roots, sources)
            accept = bool(run.params.get("accept_shrink"))
            place = Place(run, way, root, folder, accept, within, nested.closed(roots))
            owed = hooks.owed(run, host)
            with hooks.around(run, host):
                results = [_one(place, source, first=not number) for number, source in enumerate(sources)]
                require_all(results)
        notes = [nested.left_out(source, within[source.path]) for source in sources if source.path in within]
        return summary(host, results, " ".join(filter(None, (*notes, owed))))


def wanted(host: Host, named: str) -> list[Source]:
    """The sources to copy. Raises JobFailed when there is none, or none of that name."""
    enabled = list(host.sources.filter(enabled=True).select_related("host"))
    names = [line.strip() for line in named.splitlines() if line.strip()]
    unknown = set(names) - {source.path for source in enabled}
    if unknown:
        raise JobFailed(f"{sorted(unknown)[0]} is no enabled source of {host.name}.", Failure.REFUSED)
    if not enabled:
        raise JobFailed(f"{host.name} has no sources: add one with `./herder edit_host {host.name} --source PATH`.")
    return [source for source in enabled if not names or source.path in names]


def _one(place: Place, source: Source, *, first: bool) -> Copied:
    """Copy one source; a failure is a result, so that the next source still gets its turn."""
    try:
        return _copy(place, source) if first else _copy_after_others(place, source)
    except JobFailed as failed:
        place.run.log(str(failed))
        return Copied(source, failed.code, str(failed))
    except (StoreError, OSError) as error:
        place.run.log(str(error))
        why = _not_stored(place, source, error)
        return Copied(source, why.code, str(why))


def _copy_after_others(place: Place, source: Source) -> Copied:
    """The locks are free between two sources. A copy that slipped in then is waited for a little, not for ever: what
    was copied and the command before the backup forbid to go back into the queue. Raises JobFailed (lock_timeout).
    """
    for wait in BUSY_WAITS:
        try:
            return _copy(place, source)
        except NotYet as busy:
            place.run.log(f"{busy} Trying {source.path} again in {wait:g} s.")
        place.run.pause(wait)
    try:
        return _copy(place, source)
    except NotYet as busy:
        raise JobFailed(f"{source.path} was not copied: {busy}", Failure.LOCK_TIMEOUT) from busy


def _not_stored(place: Place, source: Source, error: Exception) -> JobFailed:
    """Why a source could not be stored: a disk that went away meanwhile explains whatever else was met."""
    try:
        mounted(place.root)
    except JobFailed as gone:
        return gone
    code = Failure.NO_SPACE if getattr(error, "errno", None) in FULL else Failure.ERROR
    return JobFailed(f"{source.path} could not be stored: {error}", code)


def _copy(place: Place, source: Source) -> Copied:
    run, folder = place.run, place.folder / source.folder
    if place.within.get(source.path) == (nested.SELF,):
        raise JobFailed(f"{source.path} is a backup root or lies in one: name another source.", Failure.REFUSED)
    folder.mkdir(mode=0o700, exist_ok=True)
    patiently(lambda: generations.reconcile(source, place.root, folder), run.check_cancel)
    run.step(f"copy {source.path}"[:100])
    partial = take_over(folder, run.attempt)
    if partial.adopted:
        run.log(f"Going on with what an interrupted run of {source.path} left.")
    previous = patiently(lambda: generations.newest_good(source))
    fake = os.geteuid() != 0
    row = patiently(lambda: generations.begin(source, place.root, folder, run, fake_super=fake))
    try:
        with Checksums() as checksums:
            return _fill(place, row, partial, previous, checksums)
    except (JobFailed, NotYet, StopWork, StoreError, OSError):
        if not row.path.exists():
            with suppress(DatabaseError):  # the next run forgets it
                generations.forget(row)
        raise


def _fill(place: Place, row: Generation, partial: Partial, previous: Generation | None, checksums: Checksums) -> Copied:
    """rsync into the partial, then the publication. A stop at the time limit says how far it came."""
    source, began = row.source, time.monotonic()
    meter = Meter(place.run, f"{source.path}: ")
    try:
        done, verdict = copy(
            place.run,
            place.way,
            _command(place, source, partial, previous, row.fake_super),
            destination=str(place.folder),
            on_progress=meter.hear,
            on_file=checksums.hear,
        )
    except StopWork as stop:
        if stop.reason == Failure.TIME_LIMIT:
            came_to = meter.came_to(partial.tree, previous.bytes if previous else 0)
            stop.add_note(f"Stopped at the limit, {came_to} ({source.path}); the next run goes on from there.")
        raise
    refuse_busy(verdict)
    warnings = (*_judge(place, verdict, source), *_left_out(place, source))
    info = _info(place, row, done, warnings, time.monotonic() - began)
    return _publish(place, row, partial, info, checksums, previous, done.stats.transferred_bytes)


def _command(place: Place, source: Source, partial: Partial, previous: Generation | None, fake: bool) -> Pull:
    doubtful = previous is not None and patiently(lambda: generations.is_doubtful(previous))
    if doubtful:
        place.run.log(f"{source.path}: damage was found in the last generation, so every file is compared by content.")
    return Pull(
        place.way.remote,
        decode_name(source.path),
        partial.tree,
        place.folder / COPY_LOCK,
        Options(fake_super=fake, bandwidth_kib=source.host.bandwidth_kib),
        link_dest=previous.path / TREE if previous else None,
        excludes=_excludes(place, source),
        one_file_system=stays_on_one(source),
        by_content=doubtful,
        closed=place.closed,
    )


def _excludes(place: Place, source: Source) -> tuple[str, ...]:
    return (*map(nested.exclude, place.within.get(source.path, ())), *source.excludes)


def _left_out(place: Place, source: Source) -> tuple[str, ...]:
    below = place.within.get(source.path)
    nesting = (nested.left_out(source, below),) if below else ()
    found = (*nesting, *patiently(lambda: not_covered(source)))
    for sentence in found:
        place.run.log(f"{source.path}: {sentence}")
    return found


def _judge(place: Place, verdict: Verdict, source: Source) -> tuple[str, ...]:
    """Warnings of a copy that may be kept. Raises JobFailed for one that may not.

    Names that an ordinary login may not read are a warning with their list; for root they would be a fault.
    """
    if verdict.kind is Kind.OK:
        return ()
    names = shown(verdict.paths)
    may_lack_names = verdict.kind is Kind.UNREADABLE and not place.way.root and not _is_shut(source, verdict)
    if verdict.good or may_lack_names:
        place.run.log(verdict.sentence)
        return (verdict.sentence, *names)
    raise JobFailed(f"{source.path}: {verdict.sentence}", code_of(verdict), {"paths": names})


def _is_shut(source: Source, verdict: Verdict) -> bool:
    """Whether the login may not read the source itself: what came of it is empty, which proves nothing."""
    return decode_name(source.path) in {path.removesuffix(b"/.").rstrip(b"/") for path in verdict.paths}


def _require_size(place: Place, source: Source, previous: Generation | None, files: int) -> None:
    """A source that lost most of its files is a question, not a backup. Raises JobFailed (question)."""
    before = previous.files if previous else 0
    least = before * (100 - source.shrink_percent) // 100
    if not before or place.accept_shrink or source.accept_shrink or (files and (before < SMALL or files >= least)):
        return
    text = (
        f"{source.path} has {count(files, 'file')} now, its last good backup had {before:,}: is its disk mounted? "
        "If this is right, run the backup again with accept_shrink=yes."
    )
    raise JobFailed(text, Failure.QUESTION)


def _info(place: Place, row: Generation, done: Finished, warnings: tuple[str, ...], seconds: float) -> GenerationInfo:
    keys = patiently(lambda: sorted(row.source.host.keys.values_list("fingerprint", flat=True)))
    return GenerationInfo(
        host=row.source.host.name,
        source=row.source.path,
        sequence=row.sequence,
        started=row.started_at,
        finished=timezone.now(),
        install_id=settings.PIHERDER_INSTALL_ID,
        job_id=str(place.run.job_id),
        changed=done.stats.transferred,
        duration=round(seconds, 1),
        rsync_code=max(0, done.exit_code),
        warnings=warnings,
        fake_super=row.fake_super,
        excludes=_excludes(place, row.source),
        one_file_system=stays_on_one(row.source),
        host_keys=tuple(keys),
    )


def _publish(
    place: Place,
    row: Generation,
    partial: Partial,
    info: GenerationInfo,
    checksums: Checksums,
    previous: Generation | None,
    moved: int,
) -> Copied:
    """The manifest, then a fenced write, then the rename: a worker that lost its claim publishes nothing."""
    older = previous.path if previous else None
    check = place.run.check_cancel
    sealed, _ = seal(partial, info, checksums, older, hash_here_bytes=HASH_HERE, check=check)
    _require_size(place, row.source, previous, sealed.files)
    place.run.step("publish")
    publish(partial, row.path)
    numbers = {"files": sealed.files, "bytes": sealed.bytes, "changed": sealed.changed, "seconds": sealed.duration}
    patiently(lambda: generations.mark_good(row, sealed, changed_bytes=moved))
    sentence = f"{row.source.path}: generation {row.sequence}, {count(sealed.files, 'file')}, {size(sealed.bytes)}"
    return Copied(row.source, "", sentence, row.folder, {**numbers, "warnings": list(sealed.warnings)})
