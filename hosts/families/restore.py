"""`restore`: a generation, or one path of it, pushed back by rsync; it deletes nothing unless asked."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from django import forms

from hosts import nested
from hosts.copying import Way, code_of, copy, own_folder, reached, refuse_busy, shown, way_to
from hosts.coverage import stays_on_one
from hosts.family import BackupFamily, host_of
from hosts.meter import Meter
from hosts.models import BackupRoot, Generation, GenerationStatus, Host, Source
from hosts.roots import mounted
from hosts.rsync.command import Options
from hosts.rsync.command import Restore as Push
from hosts.rsync.outcome import Kind, Verdict
from hosts.rsync.process import log_text
from hosts.store.layout import INFO, MANIFEST, TREE, GenerationInfo, LayoutError
from hosts.store.lock import COPY_LOCK
from hosts.store.manifest import ManifestDamaged, lookup
from hosts.store.paths import (
    PathRefused,
    StoreError,
    check_target,
    decode_name,
    encode_name,
    normalise,
    relative_parts,
    to_bytes,
    to_text,
)
from hosts.words import count, size
from jobs.models import Failure
from jobs.patience import patiently
from jobs.registry import JobFailed, Run, Summary, register

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hosts.rsync.output import FileLine
    from hosts.rsync.run import Finished

LATEST = "latest"
LISTED = 1000  # names of a dry run that the log shows
UNREAD = 23  # rsync's code for a generation that lacks names which could not be read


class RestoreForm(forms.Form):
    """Parameters of `restore`; the job's host is the one that is written to."""

    from_host = forms.CharField(required=False, help_text="Whose backup; the same host when empty.")
    source = forms.CharField(help_text="Path of the source.")
    sequence = forms.CharField(initial=LATEST, required=False, help_text="Number of the generation, or latest.")
    path = forms.CharField(required=False, strip=False, help_text="File or folder inside the source; all when empty.")
    to_path = forms.CharField(
        required=False, strip=False, help_text="Folder to write to; where it came from when empty."
    )
    dry_run = forms.BooleanField(required=False, help_text="Only say what would be written.")
    delete = forms.BooleanField(required=False, help_text="Remove what the generation does not have.")
    allow_system = forms.BooleanField(
        required=False, help_text="Yes, write into folders that belong to the operating system."
    )

    def clean_sequence(self) -> str:
        """A number or the word latest."""
        value = self.cleaned_data["sequence"] or LATEST
        if value != LATEST and not value.isdigit():
            raise forms.ValidationError("name a generation by its number, or write latest.")
        return value

    def clean_path(self) -> str:
        """A name inside the source."""
        value = self.cleaned_data["path"].strip("/")
        return _checked(lambda: encode_name(b"/".join(relative_parts(decode_name(value))))) if value else ""

    def clean(self) -> dict[str, object]:
        """A place that a restore may write to; deleting needs a whole folder."""
        cleaned = super().clean() or {}
        if cleaned.get("delete") and cleaned.get("path"):
            raise forms.ValidationError("Only a restore of a whole source may delete: leave the path empty.")
        if {"source", "to_path", "path"} <= set(cleaned):
            _checked(lambda: encode_name(target_of(cleaned)))
        return cleaned


def target_of(params: dict[str, object]) -> bytes:
    """The folder that is written to. Raises PathRefused where it, or the one path asked for, must not be written."""
    folder = decode_name(str(params["to_path"] or params["source"]))
    allowed = bool(params.get("allow_system"))
    goal = normalise(folder)
    if goal == "/" and params.get("delete"):
        raise PathRefused("A restore that deletes must name a folder below /.")
    name = decode_name(str(params["path"]))
    check_target(goal.rstrip("/") + "/" + to_text(name), allow_system=allowed)
    return to_bytes(goal)


@dataclass(slots=True)
class Written:
    """What a restore wrote, or would write."""

    files: int = 0
    bytes: int = 0
    deleted: int = 0
    gone: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)

    def add(self, line: FileLine) -> None:
        """Count one name."""
        self.files += line.transferred
        self.bytes += line.length if line.transferred else 0
        self.deleted += line.deleted
        names = self.gone if line.deleted else self.changed
        if len(names) < LISTED:
            names.append(f"{line.change} {log_text(line.name)}")

    @property
    def names(self) -> list[str]:
        """What happened to which name, the deletions first."""
        return (self.gone + self.changed)[:LISTED]


@register
class Restore(BackupFamily):
    """Bring files back with their owners, modes, times, ACLs and hard links."""

    kind, label = "restore", "Restore"
    lanes = ("backup",)
    mutex = True
    task = "backup_job"
    form_class = RestoreForm

    def run(self, run: Run) -> Summary:
        """Raises JobFailed when a name could not be written."""
        host = host_of(run)
        generation = patiently(lambda: chosen(host, run.params))
        disk = mounted(generation.root)
        roots, places = patiently(lambda: list(BackupRoot.objects.all())), _places(run.params)
        _require_deletable(generation, run.params)
        with (
            own_folder(disk, generation.source.host.name, reads=True) as folder,
            way_to(host, run, nested.look(roots, places)) as way,
        ):
            _require_there(generation)
            push = _command(run, way, generation, folder, nested.within(way.said, roots, places))
            push = replace(push, closed=nested.closed(roots))
            run.step("dry run" if run.params["dry_run"] else "restore")
            written = Written()
            done, verdict = copy(
                run,
                way,
                push,
                destination=host.name,
                on_progress=Meter(run).hear,
                on_file=written.add,
                push=True,
            )
        refuse_busy(verdict)
        return _summary(run, host, generation, written, done, verdict, way)


def chosen(host: Host, params: dict[str, object]) -> Generation:
    """The generation that was asked for. Raises JobFailed in words."""
    owner = params.get("from_host") or host.name
    source = Source.objects.filter(host__name=owner, path=params["source"]).first()
    if source is None:
        raise JobFailed(f"{owner} has no source {params['source']}.", Failure.REFUSED)
    good = source.generations.filter(status=GenerationStatus.GOOD).select_related("root", "source__host")
    if params["sequence"] != LATEST:
        good = good.filter(sequence=int(str(params["sequence"])))
    found = good.order_by("-sequence").first()
    if found is None:
        raise JobFailed(f"{owner} has no good generation {params['sequence']} of {source.path}.", Failure.REFUSED)
    return found


def _places(params: dict[str, object]) -> list[Source]:
    """Where it writes, to be looked at like sources: the folder, and the one path in it that was asked for."""
    goal, path = target_of(params).rstrip(b"/"), decode_name(str(params["path"]))
    return [Source(path=encode_name(place)) for place in (goal or b"/", *([goal + b"/" + path] if path else []))]


def _require_there(generation: Generation) -> None:
    """Raises JobFailed when it went before its folder was held."""
    there = patiently(lambda: Generation.objects.filter(pk=generation.pk, status=GenerationStatus.GOOD).exists())
    if not there or not (generation.path / TREE).is_dir():
        gone = f"Generation {generation.sequence} is not on the backup disk any more ({generation.path})"
        raise JobFailed(f"{gone}: restore another one.", Failure.REFUSED)


def _require_deletable(generation: Generation, params: dict[str, object]) -> None:
    """Raises JobFailed where a deletion could take what is in no backup."""
    if params["delete"] and generation.rsync_code == UNREAD:
        lacks = f"Generation {generation.sequence} of {generation.source.path} lacks names that could not be read"
        words = f"{lacks}, and deleting would remove them on the host: restore it without deleting."
        raise JobFailed(words, Failure.REFUSED)


def _command(run: Run, way: Way, generation: Generation, folder: Path, within: dict[str, tuple[str, ...]]) -> Push:
    """Raises JobFailed when the path is not in the generation or backups lie where it would write; `within` as of
    `nested.within`. Raises PathRefused for a place that must not be written.
    """
    if (nested.SELF,) in within.values():
        raise JobFailed(
            f"{encode_name(target_of(run.params))} belongs to a backup root: restore to another place.", Failure.REFUSED
        )
    path = decode_name(str(run.params["path"]))
    if path and not _holds(generation, path):
        words = f"Generation {generation.sequence} of {generation.source.path} has no {run.params['path']}."
        raise JobFailed(words, Failure.REFUSED)
    options = Options(
        fake_super=generation.fake_super or os.geteuid() != 0,
        delete=bool(run.params["delete"]),
        dry_run=bool(run.params["dry_run"]),
        bandwidth_kib=way.host.bandwidth_kib,
    )
    goal = target_of(run.params)
    below = within.get(encode_name(goal), ())
    if below:
        run.log(f"{nested.lies_in(encode_name(goal), below)} alone.")
    alone = tuple(map(nested.exclude, below))
    push = Push(way.remote, generation.path / TREE, goal, folder / COPY_LOCK, options, alone=alone)
    if options.delete:
        return _sparing(push, generation)
    return _placed(push, run, decode_name(generation.source.path), path)


def _sparing(push: Push, generation: Generation) -> Push:
    """What the backup left out is not deleted, neither by what the source says now nor by what it said then. Raises
    JobFailed where it is not known what was left out.
    """
    source = generation.source
    try:
        then = GenerationInfo.from_json((generation.path / INFO).read_bytes())
    except (LayoutError, OSError) as error:
        lost = f"What generation {generation.sequence} of {source.path} left out cannot be read ({error})"
        raise JobFailed(f"{lost}, and deleting could remove it: restore without deleting.", Failure.REFUSED) from None
    excludes = (*source.excludes, *then.excludes)
    one = stays_on_one(source) or then.one_file_system
    return replace(push, excludes=tuple(dict.fromkeys(excludes)), one_file_system=one)


def _placed(push: Push, run: Run, source: bytes, path: bytes) -> Push:
    """Folders that are there already keep their owner and mode, unless the whole source goes back to its own place."""
    goal = push.destination.rstrip(b"/")
    if not path:
        other = push.destination != source and reached(run.shell(), push.remote, [push.destination])
        return replace(push, names=tuple(sorted(os.listdir(bytes(push.generation))))) if other else push
    above = path.split(b"/")[:-1]
    folders = [b"/".join(above[: depth + 1]) for depth in range(len(above))]
    if not folders:
        return replace(push, names=(path,))
    there = reached(run.shell(), push.remote, [push.destination, *(goal + b"/" + folder for folder in folders)])
    missing = folders[max(0, there - 1) :][:1]
    return replace(push, names=(path,), missing=b"".join(missing))


def _holds(generation: Generation, path: bytes) -> bool:
    """Whether the generation has this name; a damaged manifest keeps nobody from a file that is there."""
    try:
        return lookup(generation.path / MANIFEST, path) is not None
    except ManifestDamaged:
        return os.path.lexists(bytes(generation.path / TREE) + b"/" + path)


def _summary(
    run: Run, host: Host, generation: Generation, written: Written, done: Finished, verdict: Verdict, way: Way
) -> Summary:
    numbers = {"files": written.files, "bytes": written.bytes, "deleted": written.deleted}
    result = {**numbers, "generation": generation.folder, "names": written.names}
    if verdict.kind is not Kind.OK:
        raise JobFailed(verdict.sentence, code_of(verdict), {**result, "paths": shown(verdict.paths)})
    for name in written.names if run.params["dry_run"] else ():
        run.log(name)
    what = f"{count(written.files, 'file')}, {size(written.bytes)}"
    gone = count(written.deleted, "name")
    goal = f"{host.name}:{run.params['to_path'] or generation.source.path}"
    would, did = (f", {gone} {verb} deleted" if written.deleted else "" for verb in ("would be", "were"))
    what = f"{what} of generation {generation.sequence}"
    if run.params["dry_run"]:
        return Summary(f"Dry run: {what} would be written to {goal}{would}.", result)
    owners = "" if way.root else f" Owners could not be set: {host.user} is not root there and has no sudo for rsync."
    return Summary(f"{what} written to {goal}{did}.{owners}", result)


def _checked(look: Callable[[], str]) -> str:
    """The answer of `look`, its refusal as a form's. Raises ValidationError."""
    try:
        return look()
    except StoreError as refusal:
        raise forms.ValidationError(str(refusal)) from None
