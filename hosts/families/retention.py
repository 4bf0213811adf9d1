"""`retention`: removes the generations that a host's rule no longer keeps; it would rather ask than remove."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field

from django import forms
from django.conf import settings
from django.utils import timezone

from hosts.at_work import at_work
from hosts.family import HostFamily
from hosts.generations import on_disk
from hosts.models import BackupRoot, Generation, GenerationStatus, Host
from hosts.retention_rule import Candidate, Plan, Policy, plan
from hosts.roots import mounted
from hosts.store.layout import trash
from hosts.store.lock import host_folder
from hosts.store.paths import StoreError
from hosts.store.trash import empty_trash
from hosts.words import count
from jobs.models import Failure
from jobs.patience import patiently
from jobs.registry import JobFailed, Run, Summary, register


class RetentionForm(forms.Form):
    """Parameters of `retention`."""

    host = forms.CharField(required=False, help_text="Only this host.")
    dry_run = forms.BooleanField(required=False, help_text="Only say what would go.")
    confirm = forms.CharField(required=False, help_text="Codes of the questions answered with yes, with commas.")


@dataclass(slots=True)
class Outcome:
    """What a run did, over all hosts."""

    removed: list[str] = field(default_factory=list)
    kept: int = 0
    questions: list[str] = field(default_factory=list)
    codes: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    passed_over: list[str] = field(default_factory=list)
    left: set[str] = field(default_factory=set)  # hosts of which something was passed over

    def pass_over(self, host: str, why: str) -> None:
        """Say once why something of a host was not touched."""
        self.left.add(host)
        if why not in self.passed_over:
            self.passed_over.append(why)

    def to_json(self) -> dict[str, object]:
        """For the job's result."""
        lists = {"removed": self.removed, "questions": self.questions, "passed_over": self.passed_over}
        return {**lists, "kept": self.kept, "codes": sorted({code for _, codes in self.codes for code in codes})}


@register
class Retention(HostFamily):
    """Thin generations by each host's own rule: never the newest good one, one kept for ever, or one in use."""

    kind, label = "retention", "Thin out backups"
    lanes = ("retention",)
    needs_host = False
    task = "housekeeping_job"
    form_class = RetentionForm

    def run(self, run: Run) -> Summary:
        """Raises JobFailed (question) when a host's rule would remove too much or the clock cannot be trusted."""
        outcome = Outcome()
        synchronised = clock_synchronised()
        hosts = patiently(lambda: chosen(str(run.params.get("host") or "")))
        for number, host in enumerate(hosts):
            run.check_cancel()
            run.progress(number, len(hosts), host.name)
            try:
                _thin(run, host, outcome, synchronised)
            except OSError as fault:
                outcome.pass_over(host.name, f"{host.name}: its backups could not be looked at: {fault}.")
        if not run.params.get("dry_run"):
            _empty_bins(run)
        return _summary(run, outcome)


def chosen(name: str) -> list[Host]:
    """All hosts, or the one of that name. Raises JobFailed."""
    hosts = list(Host.objects.filter(name=name) if name else Host.objects.all())
    if name and not hosts:
        raise JobFailed(f"There is no host {name}.", Failure.REFUSED)
    return hosts


def _thin(run: Run, host: Host, outcome: Outcome, synchronised: bool | None) -> None:
    """Raises OSError before anything is removed when a disk cannot say which of the host's generations it holds."""
    rows = patiently(lambda: _rows(host))
    for row in rows:
        row.path.is_dir()
    confirmed = {code.strip() for code in str(run.params.get("confirm") or "").split(",")}
    policy = Policy(host.keep_last, host.keep_daily, host.keep_weekly, host.keep_monthly)
    found = plan(
        [_candidate(row) for row in on_disk(row for row in rows if row.status == GenerationStatus.GOOD)],
        policy,
        now=timezone.now(),
        clock_synchronised=synchronised,
        zone=timezone.get_default_timezone(),
        confirmed=confirmed,
    )
    outcome.kept += len(found.keep)
    if found.question:
        outcome.questions.append(f"{host.name}: {found.question}")
        outcome.codes.append((host.name, found.doubts))
    going = [row for row in rows if row.pk in found.remove or row.status == GenerationStatus.DELETING]
    if going:
        _remove(run, host, going, outcome)
    _tell(run, host, found)


def _rows(host: Host) -> list[Generation]:
    live = (GenerationStatus.GOOD, GenerationStatus.DELETING)
    return list(Generation.objects.filter(source__host=host, status__in=live).select_related("source__host", "root"))


def _candidate(row: Generation) -> Candidate:
    return Candidate(row.pk, row.sequence, row.started_at, pinned=row.kept_at is not None, source=row.source_id)


def _tell(run: Run, host: Host, found: Plan) -> None:
    if found.would_remove:
        verb = "would remove" if run.params.get("dry_run") or found.question else "removed"
        run.log(f"{host.name}: kept {len(found.keep)}, {verb} {len(found.would_remove)}.")


def _remove(run: Run, host: Host, going: list[Generation], outcome: Outcome) -> None:
    """Remove rows of one host, unless its folder is in use by a job."""
    if run.params.get("dry_run"):
        outcome.removed += [f"{row.source} {row.folder}" for row in going]
        return
    if patiently(lambda: at_work(host.pk, "backup")):
        outcome.pass_over(host.name, f"{host.name} has a backup, restore or verification under way.")
        return
    for row in going:
        run.check_cancel()
        try:
            with host_folder(mounted(row.root), host.name):
                removed = _remove_one(run, row)
        except (StoreError, OSError, JobFailed) as reason:
            outcome.pass_over(host.name, f"{host.name}: {reason}")
            continue
        if removed:
            outcome.removed.append(f"{row.source} {row.folder}")
            run.log(f"Removed {row.source} {row.folder}.")


def _remove_one(run: Run, row: Generation) -> bool:
    """Good → deleting, out of the way by one rename, removed, and the row last; False when the row had moved on.

    A stop in mid removal leaves the row as deleting and the rest in the bin; the next run goes on with both.
    """
    mine = Generation.objects.filter(pk=row.pk)
    if row.status == GenerationStatus.GOOD:
        free = mine.filter(status=GenerationStatus.GOOD, kept_at__isnull=True)
        if not patiently(lambda: free.update(status=GenerationStatus.DELETING)):
            return False
    if row.path.exists():
        trash(row.path, tick=run.check_cancel)
    patiently(lambda: mine.filter(status=GenerationStatus.DELETING).delete())
    return True


def _empty_bins(run: Run) -> None:
    """Finish what an interrupted removal left in the bins of the mounted roots."""
    for root in patiently(lambda: list(BackupRoot.objects.all())):
        try:
            left = empty_trash(mounted(root), run.check_cancel)
        except (StoreError, OSError, JobFailed) as away:
            run.log(str(away))
            continue
        if left:
            run.log(f"Removed {count(left, 'leftover')} of an interrupted run below {root.path}.")


def clock_synchronised() -> bool | None:
    """Whether systemd says that the clock is synchronised (timedatectl(1)); None when nobody can say."""
    if settings.PIHERDER_CLOCK_TRUSTED:
        return True
    try:
        argv = ["timedatectl", "show", "--property=NTPSynchronized", "--value"]
        said = subprocess.run(argv, capture_output=True, text=True, timeout=10, check=False).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return None
    return {"yes": True, "no": False}.get(said)


def _summary(run: Run, outcome: Outcome) -> Summary:
    result = outcome.to_json()
    for line in (*outcome.questions, *outcome.passed_over):
        run.log(line)
    if outcome.questions:
        name, codes = outcome.codes[0]
        how = f"To go on: ./herder run_job retention --param host={name} --param confirm={','.join(codes)}"
        raise JobFailed(f"{outcome.questions[0]} {how}", Failure.QUESTION, result)
    verb = "would go" if run.params.get("dry_run") else "removed"
    over = f", {count(len(outcome.left), 'host')} passed over" if outcome.left else ""
    return Summary(f"{count(len(outcome.removed), 'generation')} {verb}, {outcome.kept} kept{over}.", result)
