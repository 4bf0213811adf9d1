"""Kept of accounts beside their names: where they are logged in, their second step, and the duty to have one."""

from __future__ import annotations

import time

from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import models
from django.utils import timezone
from django_otp.models import Device
from django_otp.oath import TOTP


class SignIn(models.Model):
    """One login: what a person needs to know their sessions again. It goes with the session, whose key stays secret."""

    session = models.OneToOneField(Session, models.CASCADE, related_name="sign_in")
    user = models.ForeignKey(User, models.CASCADE, related_name="sign_ins")
    at = models.DateTimeField(default=timezone.now)
    address = models.GenericIPAddressField(null=True)
    browser = models.CharField(max_length=300, blank=True, default="")

    class Meta:
        app_label = "piherder"
        ordering = ("-at",)

    def __str__(self) -> str:
        return f"{self.user} at {self.at:%Y-%m-%d %H:%M}"


class Authenticator(Device):  # type: ignore[misc]  # django-otp has no types
    """An app that makes codes: django-otp's device, with its key sealed like every other secret at rest."""

    TOLERANCE = 1  # steps of 30 s that a clock may be off, or a code be late (RFC 6238, section 5.2)

    key_sealed = models.TextField()
    last_step = models.BigIntegerField(default=-1)  # the newest that was accepted

    class Meta:
        app_label = "piherder"
        constraints = (models.UniqueConstraint(fields=["user", "confirmed"], name="one_authenticator"),)

    def __str__(self) -> str:
        return f"of {self.user}"

    @property
    def key(self) -> bytes:
        """The shared secret. Raises SealBroken."""
        from hosts.vault import unseal  # here, because cryptography is large and beat opens nothing

        return bytes.fromhex(unseal(self.key_sealed))

    def verify_token(self, token: str) -> bool:
        """Whether a code is right; the database lets each be right once. Raises SealBroken."""
        if not (token.isascii() and token.isdigit() and len(token) == 6):
            return False
        totp = TOTP(self.key)
        totp.time = time.time()
        if not totp.verify(int(token), self.TOLERANCE, min_t=self.last_step + 1):
            return False
        newer = type(self).objects.filter(pk=self.pk, last_step__lt=totp.t())
        return bool(newer.update(last_step=totp.t()))


class RecoveryCode(models.Model):
    """A code that replaces the app once: the row goes when it is used."""

    user = models.ForeignKey(User, models.CASCADE, related_name="recovery_codes")
    digest = models.CharField(max_length=64)

    class Meta:
        app_label = "piherder"
        constraints = (models.UniqueConstraint(fields=["user", "digest"], name="one_recovery_code"),)

    def __str__(self) -> str:
        return f"of {self.user}"


class Rules(models.Model):
    """The single row (id 1) of what holds for all accounts."""

    second_step_from = models.DateTimeField(null=True)

    class Meta:
        app_label = "piherder"

    def __str__(self) -> str:
        return "Accounts"

    @classmethod
    def load(cls) -> Rules:
        """The row; defaults when nobody has saved it yet."""
        return cls.objects.filter(pk=1).first() or cls(pk=1)
