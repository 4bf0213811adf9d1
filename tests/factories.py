"""Rows for tests: plain functions, each with what its row cannot do without."""

from __future__ import annotations

import itertools
import uuid
from typing import Any

from django.utils import timezone

from hosts.models import Credential, Host
from jobs import logs
from jobs.admission import Draft, admit
from jobs.models import Job, JobLine, Lane, Status, WaitingOn, WorkerNode
from jobs.node import Me
from jobs.registry import get

_numbers = itertools.count(1)


def make_credential(name: str = "") -> Credential:
    """A key pair whose private half opens nothing."""
    return Credential.objects.create(
        name=name or f"key-{next(_numbers)}",
        public_key="ssh-ed25519 AAAA",
        fingerprint="SHA256:x",
        private_key_sealed="x",
    )


def make_host(name: str = "", **fields: Any) -> Host:
    """A machine that nobody ever reached; names sort as they were made."""
    if "credential" not in fields:
        fields["credential"] = make_credential()
    return Host.objects.create(name=name or f"pi-{next(_numbers):06}", address="192.0.2.1", **fields)


def make_job(kind: str = "work", host: Host | None = None, params: dict[str, Any] | None = None, **draft: Any) -> Job:
    """A job that came in by the engine's own admission, with its lanes."""
    family, params = get(kind), params or {}
    host_id = host.pk if host else None
    lanes = family.lanes_of(host_id, params)
    job, attached = admit(Draft(family, host_id, params, lanes=lanes, **draft))
    assert not attached, "the test wanted a job of its own"
    return job


def make_node(name: str = "w1@pi", **fields: Any) -> Me:
    """A live worker, and who it is."""
    me = Me(name, uuid.uuid4())
    WorkerNode.objects.create(boot=me.boot, name=name, **{"pid": 1, "slots": 2, **fields})
    return me


def change(job: Job, **fields: Any) -> Job:
    """The row with these fields, whatever the engine would say."""
    Job.objects.filter(pk=job.pk).update(**fields)
    job.refresh_from_db()
    return job


def running_on(me: Me, job: Job) -> Job:
    """The job as `me` would run it."""
    now = timezone.now()
    return change(
        job, status=Status.RUNNING, attempt=uuid.uuid4(), boot=me.boot, node=me.name, picked_up_at=now, started_at=now
    )


def picked_up_by(me: Me, job: Job) -> Job:
    """The job as `me` holds it before the claim."""
    return change(job, attempt=uuid.uuid4(), boot=me.boot, node=me.name, picked_up_at=timezone.now())


def waiting_on(what: WaitingOn, job: Job, **fields: Any) -> Job:
    """The job as it waits, due now."""
    now = timezone.now()
    return change(job, **{"waiting_on": what, "waiting_since": now, "next_probe_at": now, **fields})


def fence(job: Job, **fields: Any) -> Lane:
    """The fence that a job which copies holds."""
    return Lane.objects.create(name=Lane.FENCE, host_id=job.host_id, job=job, attempt=job.attempt, **fields)


def lines(job: Job, *rows: JobLine) -> None:
    """The rows of a job's log, whatever its state."""
    JobLine.objects.bulk_create(rows)
    change(job, log_lines=rows[-1].number)


def store(job: Job, rows: list[JobLine]) -> None:
    """Rows of a running job's log, as its own attempt stores them."""
    assert job.attempt
    logs.store(job.pk, job.attempt, rows)


def events(job: Job) -> list[str]:
    """Names of what happened to a job, in order."""
    return list(job.events.values_list("name", flat=True))
