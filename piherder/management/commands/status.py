"""`status`: how everything is, and what needs attention."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.text import Text

from jobs.follow import title, waiting_words
from jobs.management.door import FAILED, SUCCEEDED, DoorCommand, add_json
from jobs.management.show import as_json as job_json
from jobs.spans import ago, size
from jobs.terminal import live_console, table
from piherder.management.state import State, look

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from jobs.terminal import Cell


class Command(DoorCommand):
    """Show the state of the installation; exit code 1 when something needs attention."""

    help = "Show how everything is; exit code 1 when something needs attention. Heartbeats are watched for seconds."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Only the form."""
        add_json(parser)

    def work(self, **options: Any) -> int:
        """Look, print, and name what needs attention on stderr."""
        if options["as_json"] or not self.stderr.isatty():
            state = look()
        else:
            with live_console(stderr=True).status("Watching heartbeats …"):
                state = look()
        if options["as_json"]:
            self.emit(as_json(state))
        else:
            table(self.stdout, ("", " "), rows(state))
            for problem in state.problems:
                self.stderr.write(problem)
        return FAILED if state.problems else SUCCEEDED


def as_json(state: State) -> dict[str, Any]:
    """For a program; with the problems as sentences."""
    oldest = state.jobs.get("oldest_pending")
    return {
        "well": not state.problems,
        "problems": state.problems,
        "installation": {
            "form": state.form.kind,
            "words": state.form.words,
            "release": state.form.release,
            "programs": state.form.programs,
        },
        "database": state.database,
        "redis": state.redis,
        "nodes": [asdict(node) for node in state.nodes],
        "beat": state.beat,
        "jobs": {**state.jobs, "oldest_pending": job_json(oldest) if oldest else None},
        "waiting": [job_json(job) for job in state.waiting],
        "holds": state.holds,
        "backup_roots": [root.as_json() for root in state.roots],
        "herder_backup": state.archives,
    }


def rows(state: State) -> list[list[Cell]]:
    """All parts as rows of two cells; a part's name stands before its first row only."""
    parts: list[tuple[str, list[Cell]]] = [
        ("form", form(state)),
        ("database", [database(state)]),
        ("redis", [redis(state)]),
        ("workers", workers(state)),
        ("beat", [beat(state)] if state.beat else []),
        ("queues", [queues(state)] if state.redis.get("queues") else []),
        ("jobs", jobs(state)),
        ("waiting", [f"{title(job)}: {waiting_words(job)}" for job in state.waiting]),
        ("holds", [Text(words, "yellow") for words in state.holds]),
        ("backups", roots(state)),
        ("herder", [archives(state)] if state.archives else []),
    ]
    return [[name if index == 0 else "", cell] for name, cells in parts for index, cell in enumerate(cells)]


def mark(well: bool, good: str, bad: str) -> Text:
    """Green or red words."""
    return Text(good, "green") if well else Text(bad, "red")


def form(state: State) -> list[Cell]:
    """What kind of installation this is, and each of its programs as its supervisor sees it."""
    programs: list[Cell] = [f"{name}  {words}" for name, words in state.form.programs.items()]
    return [state.form.words, *programs]


def database(state: State) -> Cell:
    """Kind, place, reachable or not."""
    kind = f"{state.database['kind']} {state.database['place']}  "
    return Text(kind) + mark(state.database["reachable"], "reachable", "away")


def redis(state: State) -> Cell:
    """Reachable or not, and the eviction policy."""
    policy = state.redis.get("policy")
    return Text() + mark(state.redis["reachable"], "reachable", "away") + Text(f"  {policy}" if policy else "")


def workers(state: State) -> list[Cell]:
    """One row per worker."""
    return [
        Text(f"{node.name}  {node.busy} of {node.slots} slots busy, queues {', '.join(node.queues)}  ")
        + mark(not node.silent_for, "draining" if node.draining else "beating", f"silent for {node.silent_for:.0f} s")
        for node in state.nodes
    ] or [Text("none", "red")]


def beat(state: State) -> Cell:
    """Who leads."""
    if not state.beat["holder"]:
        return Text("none", "red")
    silent = state.beat["silent_for"]
    return Text(f"{state.beat['holder']}  ") + mark(not silent, "leading", f"silent for {silent:.0f} s")


def queues(state: State) -> Cell:
    """Messages that wait."""
    depths = state.redis["queues"]
    return ", ".join(f"{name}: {'unknown' if depth is None else depth}" for name, depth in depths.items())


def jobs(state: State) -> list[Cell]:
    """Counts, and the oldest that is pending."""
    if not state.jobs:
        return []
    lines: list[Cell] = [f"{state.jobs['running']} running, {state.jobs['pending']} pending"]
    oldest = state.jobs["oldest_pending"]
    if oldest:
        lines.append(f"oldest pending: {title(oldest)}, requested {ago(oldest.created_at)}, {waiting_words(oldest)}")
    return lines


def archives(state: State) -> Cell:
    """How many archives of the herder itself there are, and the age of the newest."""
    found = state.archives
    if not found["newest"]:
        return Text("no archive of its own")
    key = "with the master key" if found["master_key_inside"] else "without the master key"
    return f"{found['newest']}  made {ago(found['newest_at'])}, {key}, {found['count']} kept"


def roots(state: State) -> list[Cell]:
    """One row per backup root."""
    return [
        Text(f"{root.path}{'  default' if root.is_default else ''}  {size(root.free_bytes)} free  ")
        + mark(not root.problem, "ready", "not usable")
        for root in state.roots
    ]
