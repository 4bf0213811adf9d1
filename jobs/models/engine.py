"""The engine's own state: workers, the beat's lease, what schedules did, and the switches an operator sets."""

from __future__ import annotations

import uuid

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q
from django.utils import timezone


class WorkerNode(models.Model):
    """One boot of one worker. Alive while `beats` moves; dead is final and set once, by compare-and-set on `beats`."""

    boot = models.UUIDField(primary_key=True, default=uuid.uuid4)
    name = models.CharField(max_length=200)
    pid = models.PositiveIntegerField()
    machine = models.CharField(max_length=200, blank=True, default="")
    slots = models.PositiveIntegerField(default=1)
    queues = models.JSONField(default=list)
    beats = models.PositiveBigIntegerField(default=0)
    started_at = models.DateTimeField(default=timezone.now)
    drain_at = models.DateTimeField(null=True, blank=True)
    dead_at = models.DateTimeField(null=True, blank=True)
    dead_why = models.CharField(max_length=200, blank=True, default="")

    class Meta:
        ordering = ("dead_at", "name")
        constraints = (
            models.UniqueConstraint(
                fields=("name",), condition=Q(dead_at__isnull=True), name="worker_node_one_alive_per_name"
            ),
        )

    def __str__(self) -> str:
        return self.name


class BeatLease(models.Model):
    """The single row (id 1) that says which beat process fires schedules; taken by compare-and-set on `counter`."""

    holder = models.UUIDField(null=True, blank=True)
    name = models.CharField(max_length=200, blank=True, default="")
    counter = models.PositiveBigIntegerField(default=0)
    renewed_at = models.DateTimeField(default=timezone.now)

    def __str__(self) -> str:
        return self.name or "nobody"


class ScheduleFire(models.Model):
    """One due time of one schedule; the unique key makes two beats fire it once."""

    schedule = models.ForeignKey("django_celery_beat.PeriodicTask", models.CASCADE, related_name="fires")
    due_at = models.DateTimeField()
    fired_at = models.DateTimeField(default=timezone.now)
    ended_at = models.DateTimeField(null=True, blank=True)
    started = models.PositiveIntegerField(default=0)
    skipped = models.PositiveIntegerField(default=0)
    text = models.TextField(blank=True, default="")
    owed = models.JSONField(default=list, blank=True)  # ids of hosts that are owed this run, see `schedules.OWED`

    class Meta:
        ordering = ("-id",)
        constraints = (models.UniqueConstraint(fields=("schedule", "due_at"), name="schedule_fires_once"),)

    def __str__(self) -> str:
        return f"{self.schedule} due {self.due_at:%Y-%m-%d %H:%M}"


class EngineSettings(models.Model):
    """The single row (id 1) of Settings → General → Jobs, and the switch that holds the whole herd."""

    host_wait_sec = models.PositiveIntegerField(
        "longest wait for a host that is down (seconds)",
        default=1800,
        validators=[MinValueValidator(30), MaxValueValidator(86_400)],
    )
    held_at = models.DateTimeField(null=True, blank=True)
    held_by = models.CharField(max_length=150, blank=True, default="")
    hold_reason = models.CharField(max_length=200, blank=True, default="")
    keep_job_days = models.PositiveIntegerField(
        "days to keep ended jobs", default=90, validators=[MinValueValidator(1)]
    )

    class Meta:
        verbose_name_plural = "engine settings"

    def __str__(self) -> str:
        return "Jobs"

    @classmethod
    def load(cls) -> EngineSettings:
        """The row; defaults when nobody has saved it yet."""
        return cls.objects.filter(pk=1).first() or cls(pk=1)

    @property
    def held(self) -> bool:
        """True while nothing new may start."""
        return self.held_at is not None
