"""Backup roots, the sources of a host, and the generations kept of each."""

from __future__ import annotations

import uuid
from pathlib import Path

from django.core.validators import MaxValueValidator
from django.db import models
from django.db.models import Q
from django.utils import timezone

from hosts.models.host import Host


class BackupRoot(models.Model):
    """A folder on a disk that carries our marker; without the marker the disk is not mounted and nothing is written."""

    path = models.CharField(max_length=1000, unique=True)
    marker = models.UUIDField(default=uuid.uuid4, unique=True)
    is_default = models.BooleanField(default=False)
    capabilities = models.JSONField(default=dict, blank=True)
    probed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-is_default", "path")
        constraints = (
            models.UniqueConstraint(
                fields=("is_default",), condition=Q(is_default=True), name="backup_root_one_default"
            ),
        )

    def __str__(self) -> str:
        return self.path


class Source(models.Model):
    """A folder of a host that is backed up, with its own excludes and its own line of generations."""

    host = models.ForeignKey(Host, models.CASCADE, related_name="sources")
    path = models.CharField(max_length=1000)
    folder = models.CharField(max_length=120, help_text="Name of its folder below the host's in the backup root.")
    excludes = models.JSONField(default=list, blank=True)
    shrink_percent = models.PositiveIntegerField(
        "stop when the source lost more than this share of its files (%)",
        default=50,
        validators=[MaxValueValidator(100)],
    )
    accept_shrink = models.BooleanField("accept a smaller source at the next backup", default=False)
    one_file_system = models.BooleanField(
        "leave out other filesystems mounted below it", default=False, help_text="Always so for /."
    )
    enabled = models.BooleanField(default=True)
    last_good_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("path",)
        constraints = (
            models.UniqueConstraint(fields=("host", "path"), name="source_once_per_host"),
            models.UniqueConstraint(fields=("host", "folder"), name="source_folder_once_per_host"),
        )

    def __str__(self) -> str:
        return f"{self.host}:{self.path}"


class GenerationStatus(models.TextChoices):
    """Where a generation is in its life."""

    WRITING = "writing", "Writing"
    GOOD = "good", "Good"
    DELETING = "deleting", "Deleting"


class Generation(models.Model):
    """One kept state of one source. Automaton: WRITING → GOOD → DELETING → gone.

    Order is the sequence, not the clock. The newest good one and those kept for ever are never deleted.
    """

    source = models.ForeignKey(Source, models.PROTECT, related_name="generations")
    sequence = models.PositiveIntegerField()
    folder = models.CharField(max_length=60, help_text="<sequence>-<UTC time>")
    root = models.ForeignKey(BackupRoot, models.PROTECT, related_name="generations")
    status = models.CharField(max_length=8, choices=GenerationStatus.choices, default=GenerationStatus.WRITING)
    job = models.ForeignKey("jobs.Job", models.SET_NULL, null=True, blank=True, related_name="generations")
    attempt = models.UUIDField(null=True, blank=True)
    started_at = models.DateTimeField(default=timezone.now)
    finished_at = models.DateTimeField(null=True, blank=True)
    files = models.BigIntegerField(default=0)
    bytes = models.BigIntegerField(default=0)
    changed_files = models.BigIntegerField(default=0)
    changed_bytes = models.BigIntegerField(default=0)
    rsync_code = models.PositiveIntegerField(null=True, blank=True)
    warnings = models.JSONField(default=list, blank=True)
    fake_super = models.BooleanField(default=False)

    kept_at = models.DateTimeField("kept for ever since", null=True, blank=True)
    kept_note = models.CharField(max_length=200, blank=True, default="")
    verified_at = models.DateTimeField("last proven restorable", null=True, blank=True)
    verified_files = models.BigIntegerField(default=0)
    verified_bytes = models.BigIntegerField(default=0)
    verify_cursor = models.TextField(blank=True, default="")
    verify_problem = models.CharField(max_length=300, blank=True, default="")
    verified_whole_at = models.DateTimeField("last read from the first file to the last", null=True, blank=True)
    whole_cursor = models.TextField(
        blank=True, default="", help_text="How far it was read without a fault since damage was found."
    )
    damage_answered_at = models.DateTimeField(
        "a later one was read whole since damage was found", null=True, blank=True
    )

    class Meta:
        ordering = ("source", "-sequence")
        constraints = (
            models.UniqueConstraint(fields=("source", "sequence"), name="generation_sequence_once_per_source"),
            models.CheckConstraint(
                condition=Q(status="writing") | Q(finished_at__isnull=False), name="generation_good_is_finished"
            ),
        )

    def __str__(self) -> str:
        return f"{self.source.path} {self.folder}"

    @property
    def path(self) -> Path:
        """Its folder on disk."""
        return Path(self.root.path) / self.source.host.name / self.source.folder / self.folder
