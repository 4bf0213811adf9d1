"""The steps of the demonstration: each does something, proves it, and returns the proof in words."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hosts.models import HostFacts
from hosts.root_admin import add_root
from hosts.store.layout import PARTIAL, TREE
from hosts.store.paths import encode_name
from hosts.words import count, size
from jobs.models import Lane, WorkerNode
from piherder.demo import files, proof
from piherder.demo.machines import require_pinned
from piherder.demo.pages import sign_in
from piherder.demo.place import SLOTS
from piherder.demo.proof import Disproved
from piherder.demo.work import spans
from piherder.house.processes import is_alive, wait_until
from piherder.house.run import ADMIN

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hosts.models import Generation
    from jobs.models import Job
    from piherder.demo.house import House
    from piherder.demo.machines import Machine
    from piherder.demo.proof import Loss, Snapshot
    from piherder.demo.watch import Watch
    from piherder.demo.work import Work

BIG_BYTES = 24 << 20
SLOW_KIB = 3072  # KiB/s: the big file then takes some eight seconds, so that the kill meets it
MOVED = 8 << 20  # bytes of the big file that have arrived when the worker is killed
TOLD_WITHIN = 30.0  # seconds until the row of a killed worker has failed


@dataclass(slots=True)
class Story:
    """What the steps share."""

    house: House
    machines: list[Machine]
    watch: Watch
    work: Work
    folder: Path
    inviting: bool = False
    fake_super: bool = field(default_factory=lambda: os.geteuid() != 0)
    good: dict[str, Snapshot] = field(default_factory=dict)

    def on_all(self, kind: str) -> list[Job]:
        """One job per host, all asked for at once, followed until each succeeded."""
        return self.work.succeed([self.work.ask(kind, machine.row.pk) for machine in self.machines])

    def note(self, text: str) -> None:
        """A word about what happens now."""
        self.work.stage.note(text)


Step = tuple[str, "Callable[[Story], str]"]


def start(story: Story) -> str:
    """Hosts with files, and beside it the stack; the worker's row proves that it is at work."""
    for machine in story.machines:
        story.note(f"making the files of {machine.name}")
        machine.build()
    story.note("waiting for the programs")
    story.house.wait()
    alive = WorkerNode.objects.filter(dead_at__isnull=True, slots=SLOTS)
    if not wait_until(alive.exists, TOLD_WITHIN):
        raise Disproved(f"no worker with {SLOTS} slots reported itself")
    root = story.house.options.data / "backups"
    root.mkdir(mode=0o700)
    add_root(root, default=True)
    story.watch.start()
    if story.inviting:
        invite(story)
    return f"{', '.join(story.house.supervisor.children)}; {alive.get().name} has {SLOTS} slots"


def invite(story: Story) -> None:
    """Where to watch along."""
    house = story.house
    story.work.stage.say(f"Watch along at {house.address} (user {ADMIN}, password {house.password})", "cyan")


def register(story: Story) -> str:
    """Each host is pinned to the key whose fingerprint ssh-keygen reads on it, and to no other."""
    for machine in story.machines:
        machine.enrol()
        require_pinned(machine)
    number = sum(files.count(machine.files) for machine in story.machines)
    return f"{count(number, 'file')}; fingerprints compared, a wrong one was refused"


def facts(story: Story) -> str:
    """What the hosts say is what this kernel says."""
    story.on_all("host_facts")
    release = os.uname().release
    for machine in story.machines:
        said = HostFacts.objects.get(host=machine.row).data
        if release not in str(said.get("kernel")):
            raise Disproved(f"{machine.name} reports the kernel {said.get('kernel')}, not {release}")
    return f"all report the kernel {release}"


def first_backup(story: Story) -> str:
    """Every generation is its source, file by file."""
    jobs = story.on_all("backup")
    most = proof.most_at_once(spans(jobs))
    if most != SLOTS:
        raise Disproved(f"at most {most} backups ran at the same time, not {SLOTS}")
    story.note("comparing every file")
    links = 0
    for machine in story.machines:
        links += _compare(story, machine)
    return f"{count(links, 'path')} compared: content, modes, owners, times, links, xattrs; {most} ran at once"


def _compare(story: Story, machine: Machine) -> int:
    """The newest generation against the source; it is remembered as the good one. Returns the number of paths."""
    kept = machine.keep(machine.newest())
    proof.require_copy(proof.snapshot(machine.files), kept, machine.name, fake_super=story.fake_super)
    proof.require_sparse(os.fsencode(machine.newest().path / TREE) + b"/" + files.SPARSE, machine.name)
    story.good[machine.name] = kept
    return len(kept)


def second_backup(story: Story) -> str:
    """Unchanged files are one inode in both generations, changed ones two; the older generation is as it was."""
    changes = {machine.name: files.change(machine.files, machine.seed + 1) for machine in story.machines}
    story.on_all("backup")
    story.note("comparing inodes")
    same = fresh = 0
    for machine in story.machines:
        older = story.good[machine.name]
        proof.require_same(older, machine.keep(machine.good()[-2]), f"the first generation of {machine.name}")
        _compare(story, machine)
        changed = set(changes[machine.name].changed)
        found = proof.require_hard_linked(older, story.good[machine.name], changed, machine.name)
        same, fresh = same + found.same, fresh + found.fresh
    return f"{count(same, 'file')} hard-linked, {fresh:,} new; first generations unchanged"


def killed(story: Story) -> str:
    """The worker dies by SIGKILL while bytes move: the row says so, and what was good is byte for byte as before."""
    victim = story.machines[0]
    files.add_big(victim.files, BIG_BYTES)
    _limit(victim, SLOW_KIB)
    job = story.work.ask("backup", victim.row.pk)
    story.work.watch(job, lambda: _moved(victim) >= MOVED, "its bytes moved")
    received, worker = _moved(victim), worker_to_kill(story.house)
    if story.watch.counts[victim.name].now != 1:
        raise Disproved("no rsync was running when the worker was to be killed")
    loss = _kill(story, worker, job)
    proof.require_told(loss, TOLD_WITHIN)
    _require_clean(story, victim, worker, job)
    last = victim.newest()
    story.note("comparing the last good generation")
    proof.require_same(story.good[victim.name], victim.keep(last), "the last good generation")
    return (
        f"after {size(received)}; “{loss.words}” after {loss.seconds:.1f} s; generation {last.sequence} byte-identical"
        f" ({proof.shorthand(story.good[victim.name])})"
    )


def _limit(machine: Machine, kib: int) -> None:
    row = machine.row
    row.bandwidth_kib = kib
    row.save(update_fields=["bandwidth_kib"])


def _moved(machine: Machine) -> int:
    """Bytes of the big file that have arrived; rsync writes it under a temporary name."""
    return arrived(machine.newest().path.parent)


def arrived(folder: Path) -> int:
    """Bytes of the big file in what is being written in a source's folder of the backup root."""
    total = 0
    for path in folder.glob(f"{PARTIAL}*/{TREE}/*{os.fsdecode(files.BIG)}*"):
        with suppress(FileNotFoundError):
            total += path.stat().st_size
    return total


def worker_to_kill(house: House) -> int:
    """Pid of the worker. Raises Disproved when it is down: its pid is 0 then, which kill(2) takes for our own group."""
    pid = house.pid("worker")
    if not pid:
        raise Disproved("the worker was not running when it was to be killed")
    return pid


def _kill(story: Story, worker: int, job: Job) -> Loss:
    """Kill -9 of the worker that owns the job, and how its row ended."""
    began = time.monotonic()
    os.kill(worker, 9)
    story.note(f"kill -9 {worker}")
    ended = story.work.follow([job])[0]
    seconds = time.monotonic() - began
    return proof.Loss(ended.status, ended.failure, ended.error, ended.node, seconds)


def _require_clean(story: Story, victim: Machine, worker: int, job: Job) -> None:
    """The worker is back, and of the dead one neither an rsync nor a right on the host is left."""
    if not wait_until(lambda: story.house.pid("worker") not in {0, worker} and not is_alive(worker), TOLD_WITHIN):
        raise Disproved("the worker was not started again")
    if not wait_until(lambda: story.watch.counts[victim.name].now == 0, TOLD_WITHIN):
        raise Disproved("an rsync of the killed job still runs")
    if held := Lane.objects.filter(job=job).first():
        raise Disproved(f"the killed job still holds the lane {held.name}")


def next_run(story: Story) -> str:
    """The run after the kill is good and complete."""
    victim = story.machines[0]
    _limit(victim, 0)
    before = victim.newest().sequence
    job = story.work.succeed([story.work.ask("backup", victim.row.pk)])[0]
    story.note("comparing every file")
    paths = _compare(story, victim)
    newest = victim.newest()
    if newest.sequence <= before:
        raise Disproved("no new generation came of it")
    return f"generation {newest.sequence}: {job.summary.rstrip('.')}; {count(paths, 'path')} compared"


def restore(story: Story) -> str:
    """A file with an unusual name is deleted and comes back in every part."""
    machine = story.machines[1]
    path = os.fsencode(machine.files) + b"/" + files.TREASURE
    wanted = proof.snapshot(machine.files)[files.TREASURE]
    os.unlink(path)
    params = {"source": str(machine.files), "path": encode_name(files.TREASURE)}
    story.work.succeed([story.work.ask("restore", machine.row.pk, params)])
    found = proof.snapshot(machine.files).get(files.TREASURE)
    if found is None:
        raise Disproved("the file did not come back")
    proof.require_restored(wanted, found, "the restored file")
    xattrs = ", ".join(name for name, _ in found.xattrs) or "no xattrs here"
    return f"“{encode_name(files.TREASURE)}”: content, mode {found.entry.mode:o}, owner, time, {xattrs}"


def verify(story: Story) -> str:
    """A share of the newest generations is read again, a sample restored to scratch; both are as written."""
    jobs = story.on_all("backup_verify")
    for machine in story.machines:
        newest = machine.newest()
        if not newest.verified_at or not newest.verified_files:
            raise Disproved(f"generation {newest.sequence} of {machine.name} is not marked as proven")
    number = sum(machine.newest().verified_files for machine in story.machines)
    return f"{count(number, 'file')} of {len(jobs)} hosts read again or restored, and compared with their checksums"


def one_rsync(story: Story) -> str:
    """What the watch has seen over all steps."""
    story.watch.stop()
    proof.require_one_rsync(story.watch.peaks, f"in {story.watch.looks} looks")
    busy = sum(one.busy for one in story.watch.counts.values())
    return f"at most {max(story.watch.peaks.values())} per host in {story.watch.looks:,} looks ({busy:,} met one)"


def pages(story: Story) -> str:
    """The printed password opens the pages, and they show the work that was done."""
    page = sign_in(story.house.address, ADMIN, story.house.password)
    if missing := [machine.name for machine in story.machines if machine.name not in page]:
        raise Disproved(f"the jobs page shows no job of {missing[0]}")
    return "signed in with the printed password; the jobs page shows the jobs of all hosts"


STEPS: tuple[Step, ...] = (
    ("Start three hosts and the herder", start),
    ("Register the hosts with pinned keys", register),
    ("Ask all three for their facts", facts),
    ("First backup of all three", first_backup),
    ("Files change, second backup", second_backup),
    ("Kill -9 of the worker in mid backup", killed),
    ("The next run after the kill", next_run),
    ("Restore one file", restore),
    ("Verify a sample of the backups", verify),
    ("Never two rsyncs on a host", one_rsync),
    ("Look at the pages", pages),
)


def generations(story: Story) -> list[tuple[str, list[Generation]]]:
    """Every host with its good generations."""
    return [(machine.name, machine.good()) for machine in story.machines]
