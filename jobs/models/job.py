"""Jobs, their transitions, their log, and the rights they hold."""

from __future__ import annotations

import uuid
from datetime import timedelta

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.utils import timezone


class Status(models.TextChoices):
    """Where a job is in its life."""

    PENDING = "pending", "Pending"
    RUNNING = "running", "Running"
    SUCCEEDED = "succeeded", "Succeeded"
    FAILED = "failed", "Failed"
    CANCELLED = "cancelled", "Cancelled"


ACTIVE = (Status.PENDING, Status.RUNNING)
TERMINAL = (Status.SUCCEEDED, Status.FAILED, Status.CANCELLED)


class WaitingOn(models.TextChoices):
    """What a pending job waits for."""

    NOTHING = "", "Queued"
    WORKER = "worker", "Waiting on a worker"
    HOST = "host", "Waiting on host"
    LOCK = "lock", "Waiting on lock"


class Door(models.TextChoices):
    """Where a request came in."""

    PAGE = "page", "Web page"
    ADMIN = "admin", "Admin"
    COMMAND = "command", "Command line"
    SCHEDULE = "schedule", "Schedule"
    API = "api", "API"
    THEN = "then", "After another job"


class Failure(models.TextChoices):
    """Why a job did not succeed, as a code that programs can rely on."""

    NONE = "", "None"
    ERROR = "error", "Error"
    HOST_UNREACHABLE = "host_unreachable", "Host unreachable"
    AUTH_FAILED = "auth_failed", "Login refused"
    HOST_KEY_CHANGED = "host_key_changed", "Host key changed"
    HOST_KEY_UNKNOWN = "host_key_unknown", "Host key unknown"
    LOCK_TIMEOUT = "lock_timeout", "Lock not free in time"
    LOCK_LOST = "lock_lost", "Lock lost"
    LOST_CONTACT = "lost_contact", "Lost contact"
    WORKER_LOST = "worker_lost", "Worker lost"
    WORKER_STOPPED = "worker_stopped", "Worker stopped"
    TIME_LIMIT = "time_limit", "Time limit"
    EXPIRED = "expired", "Expired"
    ALREADY_RUNNING = "already_running", "Already running"
    CANCEL_UNCONFIRMED = "cancel_unconfirmed", "End on the host not confirmed"
    UNKNOWN_KIND = "unknown_kind", "Unknown kind"
    NO_SPACE = "no_space", "No space"
    NOT_MOUNTED = "not_mounted", "Backup disk not mounted"
    QUESTION = "question", "Needs an answer"
    REFUSED = "refused", "Refused"


class Job(models.Model):
    """One piece of work of one kind, for one host or none; this row is the truth, messages are hints.

    Automaton: PENDING → (picked up: attempt set) → RUNNING → SUCCEEDED | FAILED | CANCELLED;
    PENDING → CANCELLED | FAILED;
    and RUNNING → PENDING only where the family says that it has done nothing yet (`NotYet`).
    Every transition is a conditional UPDATE that names the old status and the attempt (`jobs/transitions.py`).
    """

    kind = models.CharField(max_length=64)
    # Fewer indexes on the foreign keys than Django makes by itself: each costs a page of an SD card per job.
    host = models.ForeignKey("hosts.Host", models.PROTECT, null=True, blank=True, related_name="jobs", db_index=False)
    peer_host = models.ForeignKey(
        "hosts.Host", models.PROTECT, null=True, blank=True, related_name="peer_jobs", db_index=False
    )
    params = models.JSONField(default=dict, blank=True)
    params_digest = models.CharField(max_length=64)
    exclusive = models.BooleanField(default=True)
    queue = models.CharField(max_length=64, default="celery")
    time_limit = models.DurationField(default=timedelta(hours=2))

    status = models.CharField(max_length=10, choices=Status.choices, default=Status.PENDING)
    waiting_on = models.CharField(max_length=8, choices=WaitingOn.choices, default=WaitingOn.NOTHING, blank=True)
    waiting_why = models.CharField(max_length=300, blank=True, default="")
    waiting_since = models.DateTimeField(null=True, blank=True)
    next_probe_at = models.DateTimeField(null=True, blank=True)

    node = models.CharField(max_length=200, blank=True, default="")
    boot = models.UUIDField(null=True, blank=True)
    attempt = models.UUIDField(null=True, blank=True)
    celery_task_id = models.UUIDField(default=uuid.uuid4)
    publishes = models.PositiveIntegerField(default=0)

    summary = models.CharField(max_length=500, blank=True, default="")
    result = models.JSONField(default=dict, blank=True)
    failure = models.CharField(max_length=24, choices=Failure.choices, default=Failure.NONE, blank=True)
    error = models.TextField(blank=True, default="")

    step = models.CharField(max_length=100, blank=True, default="")
    progress_done = models.BigIntegerField(null=True, blank=True)
    progress_total = models.BigIntegerField(null=True, blank=True)
    progress_label = models.CharField(max_length=200, blank=True, default="")
    log_lines = models.BigIntegerField(default=0)

    then = models.JSONField(null=True, blank=True)
    fire = models.ForeignKey("jobs.ScheduleFire", models.SET_NULL, null=True, blank=True, related_name="jobs")
    requested_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+", db_index=False
    )
    requested_name = models.CharField(max_length=150, blank=True, default="")
    door = models.CharField(max_length=8, choices=Door.choices, default=Door.COMMAND)
    client_ip = models.GenericIPAddressField(null=True, blank=True)

    created_at = models.DateTimeField(default=timezone.now)
    published_at = models.DateTimeField(null=True, blank=True)
    picked_up_at = models.DateTimeField(null=True, blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    cancel_requested_at = models.DateTimeField(null=True, blank=True)
    cancelled_by = models.CharField(max_length=150, blank=True, default="")

    class Meta:
        ordering = ("-id",)
        constraints = (
            models.UniqueConstraint(
                fields=("host", "kind"),
                condition=Q(status__in=ACTIVE, exclusive=True, host__isnull=False),
                name="job_one_active_per_host_and_kind",
            ),
            models.CheckConstraint(
                condition=Q(status__in=TERMINAL, finished_at__isnull=False)
                | Q(status__in=ACTIVE, finished_at__isnull=True),
                name="job_finished_at_iff_terminal",
            ),
            models.CheckConstraint(
                condition=~Q(status=Status.RUNNING) | Q(attempt__isnull=False, boot__isnull=False),
                name="job_running_has_attempt_and_boot",
            ),
        )
        indexes = (
            models.Index(fields=("status", "id"), condition=Q(status__in=ACTIVE), name="job_active"),
            models.Index(fields=("host", "-id"), name="job_by_host"),
            models.Index(fields=("kind", "-id"), name="job_by_kind"),
        )

    def __str__(self) -> str:
        return f"job {self.pk} ({self.kind})"

    @property
    def is_active(self) -> bool:
        """True until the job has ended."""
        return self.status in ACTIVE

    @property
    def where(self) -> str:
        """The host's name, or "" for work without a host."""
        return self.host.name if self.host else ""

    @property
    def state_words(self) -> str:
        """The state as a person reads it: what it waits for, or how it ended."""
        if self.is_active and self.cancel_requested_at:
            return "Cancelling"
        if self.status == Status.PENDING:
            return "Starting" if self.attempt else WaitingOn(self.waiting_on).label
        return Status(self.status).label

    @property
    def evidence(self) -> str:
        """One line that says what proves the state shown."""
        return self.error if self.status == Status.FAILED else self.summary or self.error or self.waiting_why

    @property
    def percent(self) -> int | None:
        """Progress in percent, None when the total is unknown."""
        if not self.progress_total or self.progress_done is None:
            return None
        return max(0, min(100, self.progress_done * 100 // self.progress_total))

    @property
    def duration(self) -> timedelta | None:
        """From the claim to the end or to now; None before the claim."""
        return (self.finished_at or timezone.now()) - self.started_at if self.started_at else None


class JobEvent(models.Model):
    """One transition of a job, written in the transaction that made it."""

    job = models.ForeignKey(Job, models.CASCADE, related_name="events")
    at = models.DateTimeField(default=timezone.now)
    name = models.CharField(max_length=32)
    text = models.TextField(blank=True, default="")
    node = models.CharField(max_length=200, blank=True, default="")
    attempt = models.UUIDField(null=True, blank=True)

    class Meta:
        ordering = ("id",)

    def __str__(self) -> str:
        return f"{self.name} of job {self.job_id}"


class JobLine(models.Model):
    """A line of the head or the tail of a job's log, for the live page; the whole log is a file."""

    job = models.ForeignKey(Job, models.CASCADE, related_name="lines")
    number = models.BigIntegerField()
    at = models.DateTimeField(default=timezone.now)
    text = models.TextField()

    class Meta:
        ordering = ("number",)
        constraints = (models.UniqueConstraint(fields=("job", "number"), name="job_line_once"),)

    def __str__(self) -> str:
        return self.text


class Lane(models.Model):
    """One right that an active job holds: a lane of its kind, or the fence behind the host's mutex.

    Inserted with the job (or, for a fence, at pick-up) and deleted by the transaction that ends it.
    """

    FENCE = "rsync"

    name = models.CharField(max_length=100)
    host = models.ForeignKey("hosts.Host", models.CASCADE, null=True, blank=True, related_name="lanes", db_index=False)
    job = models.ForeignKey(Job, models.CASCADE, related_name="lanes", db_index=False)
    attempt = models.UUIDField(null=True, blank=True)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = (F("host_id").asc(nulls_first=True), "name")
        constraints = (
            models.UniqueConstraint(
                fields=("host", "name"), condition=Q(host__isnull=False), name="lane_one_holder_per_host"
            ),
            models.UniqueConstraint(
                fields=("name",), condition=Q(host__isnull=True), name="lane_one_holder_without_host"
            ),
        )

    def __str__(self) -> str:
        return self.name
