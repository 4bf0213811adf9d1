"""A machine, the key that opens it, the host keys that prove it, and its facts."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models
from django.db.models import Q
from django.utils import timezone

NAME = RegexValidator(
    r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
    "Use letters, digits, dots, dashes and underscores, beginning with a letter or digit.",
)


PLAIN_PATH = RegexValidator(r"^/[A-Za-z0-9_./+:@=,-]*$", "Use an absolute path of plain letters, digits and dashes.")


class Credential(models.Model):
    """An SSH key pair; the private half is sealed and never shown again."""

    name = models.CharField(max_length=100, unique=True, validators=[NAME])
    public_key = models.TextField()
    fingerprint = models.CharField(max_length=100)
    private_key_sealed = models.TextField()
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name


class HerdManager(models.Manager["Host"]):
    """The machines that are looked after: all but the removed ones, whose rows stay because their generations stay."""

    def get_queryset(self) -> models.QuerySet[Host]:
        """Hosts that were not removed."""
        return super().get_queryset().filter(removed_at__isnull=True)


class Host(models.Model):
    """A machine looked after over SSH. Its name never changes: it is the name of its folder in the backup root.

    Protected from deletion while jobs or generations name it; removing a host sets `removed_at`.
    """

    name = models.CharField(max_length=60, unique=True, validators=[NAME])
    address = models.CharField(max_length=255, help_text="Name or IP address.")
    port = models.PositiveIntegerField(default=22, validators=[MinValueValidator(1), MaxValueValidator(65_535)])
    user = models.CharField(max_length=64, default="root")
    credential = models.ForeignKey(Credential, models.PROTECT, related_name="hosts")
    sudo_password_sealed = models.TextField(blank=True, default="")
    jump = models.ForeignKey(
        "self", models.PROTECT, null=True, blank=True, related_name="behind", verbose_name="jump host"
    )

    paused_at = models.DateTimeField(null=True, blank=True)
    paused_until = models.DateTimeField(null=True, blank=True)
    pause_reason = models.CharField(max_length=200, blank=True, default="")

    last_seen = models.DateTimeField(null=True, blank=True)
    last_error = models.CharField(max_length=300, blank=True, default="")
    last_error_at = models.DateTimeField(null=True, blank=True)

    backup_root = models.ForeignKey("hosts.BackupRoot", models.PROTECT, null=True, blank=True, related_name="hosts")
    bandwidth_kib = models.PositiveIntegerField("bandwidth limit (KiB/s, 0 = none)", default=0)
    copy_lock = models.CharField(
        "folder whose lock keeps two copies apart",
        max_length=200,
        default="/etc",
        validators=[PLAIN_PATH],
        help_text="On the host; the same for every login, so that one machine reached in two ways still is one.",
    )
    backup_limit = models.DurationField("longest backup", default=timedelta(hours=2))
    before_hook = models.TextField("command before a backup", blank=True, default="")
    after_hook = models.TextField("command after a backup", blank=True, default="")
    after_hook_owed_at = models.DateTimeField(null=True, blank=True, editable=False)  # a run ended without it
    hooks_touch_stacks = models.BooleanField("the hooks stop or start containers", default=False)
    keep_last = models.PositiveIntegerField(default=3, validators=[MinValueValidator(1)])
    keep_daily = models.PositiveIntegerField(default=7)
    keep_weekly = models.PositiveIntegerField(default=4)
    keep_monthly = models.PositiveIntegerField(default=6)
    last_backup_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    removed_at = models.DateTimeField(null=True, blank=True, editable=False)

    objects = models.Manager()
    herd = HerdManager()

    class Meta:
        ordering = ("name",)
        constraints = (
            models.CheckConstraint(condition=Q(port__gte=1, port__lte=65_535), name="host_port_is_a_port"),
            models.CheckConstraint(condition=Q(keep_last__gte=1), name="host_keeps_at_least_one"),
        )

    def __str__(self) -> str:
        return self.name

    def paused(self, now: datetime | None = None) -> bool:
        """True while a pause lasts at `now` (default: this moment)."""
        if self.paused_at is None:
            return False
        return self.paused_until is None or self.paused_until > (now or timezone.now())

    @property
    def endpoint(self) -> str:
        """user@address:port, as a person writes it."""
        address = f"[{self.address}]" if ":" in self.address else self.address
        return f"{self.user}@{address}:{self.port}"


class HostKey(models.Model):
    """A host key that a person accepted; only these prove the host."""

    host = models.ForeignKey(Host, models.CASCADE, related_name="keys")
    key_type = models.CharField(max_length=64)
    public = models.TextField(help_text="Base64, as in known_hosts.")
    fingerprint = models.CharField(max_length=100)
    pinned_at = models.DateTimeField(default=timezone.now)
    pinned_by = models.CharField(max_length=150, blank=True, default="")

    class Meta:
        ordering = ("key_type",)
        constraints = (models.UniqueConstraint(fields=("host", "key_type"), name="host_key_one_per_type"),)

    def __str__(self) -> str:
        return f"{self.key_type} {self.fingerprint}"


class HostFacts(models.Model):
    """What a host said of itself last; one row per host, overwritten by each good run."""

    host = models.OneToOneField(Host, models.CASCADE, primary_key=True, related_name="facts")
    data = models.JSONField()
    read_at = models.DateTimeField()

    class Meta:
        verbose_name_plural = "host facts"

    def __str__(self) -> str:
        return f"facts of {self.host}"


class FactsSample(models.Model):
    """A few numbers of a host at one moment; thinned as it ages."""

    host = models.ForeignKey(Host, models.CASCADE, related_name="samples")
    at = models.DateTimeField()
    numbers = models.JSONField()

    class Meta:
        ordering = ("-at",)
        indexes = (models.Index(fields=("host", "-at"), name="facts_sample_by_host"),)

    def __str__(self) -> str:
        return f"{self.host} at {self.at:%Y-%m-%d %H:%M}"
