"""Requesting jobs and waiting for them, for every command that does so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jobs.follow import Follower, LiveScreen, PlainScreen, QuietScreen, Screen, Workers, title
from jobs.management import show
from jobs.management.door import BUSY, CODES, FAILED, PENDING, SUCCEEDED, DoorCommand, add_json, me, worst
from jobs.models import Status
from jobs.services import Refused, request_job
from jobs.terminal import live_console

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from jobs.models import Job


@dataclass(slots=True)
class Answer:
    """What came of the request for one host; `code` is its exit code."""

    host: str
    job: Job | None
    code: int
    message: str
    attached: bool = False

    def as_json(self) -> dict[str, Any]:
        """For a program."""
        job = show.as_json(self.job) if self.job else None
        return {
            "host": self.host or None, "exit_code": self.code, "attached": self.attached, "message": self.message,
            "job": job,
        }  # fmt: skip


def add_wait_options(parser: ArgumentParser) -> None:
    """`--follow`, `--wait`, `--timeout` and `--json`."""
    wait = parser.add_mutually_exclusive_group()
    wait.add_argument("--follow", action="store_true", help="show progress and the live log until the end")
    wait.add_argument("--wait", action="store_true", help="wait silently for the end")
    parser.add_argument("--timeout", type=positive, metavar="S", help="wait at most S seconds (exit code 5)")
    add_json(parser)


class RequestCommand(DoorCommand):
    """A command that requests jobs and, if asked, waits for them."""

    def request(self, kind: str, name: str, host_id: int | None, params: dict[str, Any]) -> Answer:
        """Ask for one job. Raises Refused for wrong use, which is the same on every host: the first meets it."""
        try:
            found = request_job(kind, host_id, params, asker=me())
        except Refused as refusal:
            if refusal.code == "invalid":
                raise
            return Answer(name, refusal.job, CODES.get(refusal.code, FAILED), str(refusal))
        if found.attached:
            words = f"{title(found.job)} is already active ({found.job.state_words.lower()})."
            return Answer(name, found.job, BUSY, show.sentence(words), attached=True)
        return Answer(name, found.job, SUCCEEDED, show.sentence(f"{title(found.job)} is requested."))

    def conclude(self, answers: list[Answer], options: dict[str, Any]) -> int:
        """Say what was requested, wait if asked, report; returns the exit code."""
        obstacles = [] if options["as_json"] else self._say(answers)
        if options["follow"] or options["wait"] or options["timeout"] is not None:
            self._wait(answers, options, warned=bool(obstacles))
        code = worst(answer.code for answer in answers)
        if options["as_json"]:
            self.emit({"exit_code": code, "jobs": [answer.as_json() for answer in answers]})
        return code

    def _say(self, answers: list[Answer]) -> list[str]:
        for answer in answers:
            (self.stderr if answer.code else self.stdout).write(answer.message)
        obstacles = self._obstacles(answers)
        for sentence in obstacles:
            self.hint(sentence)
        return obstacles

    def _obstacles(self, answers: list[Answer]) -> list[str]:
        """What keeps the requested jobs from starting now, each once: no broker, no worker."""
        found: dict[str, None] = {}
        for job in self._ours(answers):
            job.refresh_from_db()
            if job.status == Status.PENDING and not job.attempt and not job.waiting_on:
                if job.published_at is None:
                    found["Redis does not answer: the job is saved and starts when Redis is back."] = None
                if missing := Workers().missing(job):
                    found[missing] = None
        return list(found)

    def _ours(self, answers: list[Answer]) -> list[Job]:
        """What was started or joined; a job that is merely in the way is not ours to wait for."""
        return [answer.job for answer in answers if answer.job and (answer.attached or answer.code == SUCCEEDED)]

    def _wait(self, answers: list[Answer], options: dict[str, Any], *, warned: bool) -> None:
        """Wait for our jobs, then say how each ended; `warned` when it was said that no worker runs."""
        waited = [answer for answer in answers if answer.attached or answer.code == SUCCEEDED]
        jobs = self._ours(answers)
        if not jobs:
            return
        follower = Follower(jobs, self._screen(options, several=len(jobs) > 1), warned=warned)
        try:
            with follower.screen:
                follower.follow(options["timeout"])
        except KeyboardInterrupt:
            stop = f"./herder cancel_job {jobs[0].pk}" if len(jobs) == 1 else "./herder cancel_job ID"
            self.stderr.write(f"Stopped following; the work goes on ({stop} stops it).")
        for answer, job in zip(waited, follower.jobs, strict=True):
            answer.job, answer.message = job, show.sentence(show.end_line(job))
            answer.code = BUSY if answer.attached else show.exit_code(job)
            if not options["as_json"]:
                failed = show.exit_code(job) in (FAILED, PENDING)
                (self.stderr if failed else self.stdout).write(answer.message)

    def _screen(self, options: dict[str, Any], *, several: bool) -> Screen:
        if options["as_json"] or not options["follow"]:
            return QuietScreen(self.stderr.write)
        if self.stdout.isatty():
            return LiveScreen(live_console(), several=several)
        return PlainScreen(self.stdout.write, self.stderr.write, several=several)


def positive(text: str) -> float:
    """Seconds, 0 or more. Raises ValueError, which argparse puts into words."""
    value = float(text)
    if not 0 <= value < float("inf"):
        raise ValueError
    return value
