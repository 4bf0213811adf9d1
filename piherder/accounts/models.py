"""Where accounts are logged in."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import models
from django.utils import timezone


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
