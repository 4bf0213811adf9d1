"""A job's log: the whole of it in a file, its head and tail as rows for the live page.

The file is plain while the job runs, so that a killed worker leaves what it wrote, and gzip afterwards. Lines are cut
at 64 KiB and masked before they reach either.
"""

from __future__ import annotations

import gzip
import logging
import shutil
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from jobs.models import Job, JobLine, Status
from jobs.words import one_line

if TYPE_CHECKING:
    import uuid

logger = logging.getLogger(__name__)

HEAD = 200  # lines of the beginning that stay as rows
TAIL = 500  # lines of the end that stay as rows
LONGEST = 65_536  # characters of one line
CUT = " … (line cut here)"
PART = ".gz.part"  # suffix of a log while it is being compressed
Mask = Callable[[str], str]


def path_of(job_id: int) -> Path:
    """The plain log file of a job; the ended one has the suffix `.gz`."""
    return Path(settings.PIHERDER_LOGS) / f"{job_id // 1000:06d}" / f"{job_id}.log"


def clean(line: str) -> str:
    """`line` as one printable line: no NUL, no line breaks, undecodable bytes escaped, bounded."""
    text = one_line(line)
    return text if len(text) <= LONGEST else text[:LONGEST] + CUT


class JobLog:
    """The log of one attempt: `write` is called by the work, `take` by the thread beside it.

    A disk that is full costs lines of the file, never the job: the rows go on.
    """

    def __init__(self, job_id: int, *, first: int = 0, mask: Mask = str) -> None:
        self.job_id = job_id
        self.path = path_of(job_id)
        self.mask = mask
        self.count = first
        self.broken = False
        self._lock = threading.Lock()
        self._head: list[JobLine] = []
        self._tail: deque[JobLine] = deque(maxlen=TAIL)
        self._file: TextIO | None = None

    def write(self, line: str) -> None:
        """Add a line; it reaches the file and the rows at the next flush."""
        text = clean(self.mask(line))
        now = timezone.now()
        with self._lock:
            self.count += 1
            self._to_file(f"{now:%Y-%m-%dT%H:%M:%SZ} {text}\n")
            row = JobLine(job_id=self.job_id, number=self.count, at=now, text=text)
            (self._head if self.count <= HEAD else self._tail).append(row)

    def take(self) -> list[JobLine]:
        """Rows written since the last call; the file is handed to the kernel."""
        with self._lock:
            self._to_file("")
            rows = [*self._head, *self._tail]
            self._head.clear()
            self._tail.clear()
        return rows

    def close(self) -> None:
        """End writing; the plain file stays until `compress`."""
        if self._file:
            with self._tolerant():
                self._file.close()

    def _to_file(self, text: str) -> None:
        """Add text; an empty one hands what is buffered to the kernel. A job that says nothing makes no file."""
        with self._tolerant():
            if text and self._file is None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._file = self.path.open("a", encoding="utf-8", buffering=1 << 16)
            if self._file:
                self._file.write(text) if text else self._file.flush()

    @contextmanager
    def _tolerant(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if not self.broken:
                logger.error("job %s: its log file cannot be written: %s", self.job_id, error)
            self.broken = True


def store(job_id: int, attempt: uuid.UUID, rows: list[JobLine]) -> None:
    """Insert rows and drop what is neither head nor tail any more; nothing when `attempt` no longer runs the job."""
    if not rows:
        return
    last = rows[-1].number
    with transaction.atomic():
        # First, and naming the attempt: a worker that froze and woke must not write into the log of an ended job.
        if not Job.objects.filter(pk=job_id, status=Status.RUNNING, attempt=attempt).update(log_lines=last):
            return
        JobLine.objects.bulk_create(rows, ignore_conflicts=True)
        JobLine.objects.filter(job_id=job_id, number__gt=HEAD, number__lte=last - TAIL).delete()


def compress(job_id: int) -> None:
    """Replace the plain log of an ended job by its gzip; does nothing when there is none."""
    plain = path_of(job_id)
    if not plain.exists():
        return
    draft = plain.with_suffix(PART)
    with plain.open("rb") as source, gzip.open(draft, "wb") as target:
        shutil.copyfileobj(source, target)
    draft.rename(plain.with_suffix(".log.gz"))
    plain.unlink()


def discard(job_id: int) -> None:
    """Remove a job's stored log, file and rows."""
    JobLine.objects.filter(job_id=job_id).delete()
    plain = path_of(job_id)
    for path in (plain, plain.with_suffix(".log.gz"), plain.with_suffix(PART)):
        path.unlink(missing_ok=True)


def left_plain() -> Iterator[int]:
    """Ids of the jobs whose log is still a plain file: those that run, and those whose worker was lost."""
    for path in Path(settings.PIHERDER_LOGS).glob("*/*.log"):
        if path.stem.isdecimal():
            yield int(path.stem)


def remove_parts(older_than: float) -> None:
    """Remove what compressions left that broke off before `older_than` (seconds since 1970)."""
    for part in Path(settings.PIHERDER_LOGS).glob(f"*/*{PART}"):
        with suppress(FileNotFoundError):
            if part.stat().st_mtime < older_than:
                part.unlink()


def read(job_id: int) -> Iterator[str]:
    """The whole log, line by line, whether the job still runs or has ended; nothing when none is kept."""
    plain = path_of(job_id)
    packed = plain.with_suffix(".log.gz")
    if packed.exists():
        with gzip.open(packed, "rt", encoding="utf-8", errors="replace") as handle:
            yield from handle
    elif plain.exists():
        with plain.open(encoding="utf-8", errors="replace") as handle:
            yield from handle
