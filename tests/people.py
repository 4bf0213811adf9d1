"""Browsers of people with rights."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import Permission, User
from django.test import Client


def signed_in(name: str, *rights: str, strict: bool = False, **fields: Any) -> Client:
    """The browser of a new user with these permissions; `strict` sends no CSRF token and gets no mercy."""
    user = User.objects.create_user(name, **fields)
    user.user_permissions.set(Permission.objects.filter(codename__in=rights))
    client = Client(enforce_csrf_checks=strict)
    client.force_login(user)
    return client


def reader() -> Client:
    """Someone who may look."""
    return signed_in("reader")


def runner() -> Client:
    """Someone who may run jobs."""
    return signed_in("runner", "add_job")


def boss() -> Client:
    """Someone who may do everything."""
    return signed_in("boss", is_staff=True, is_superuser=True)
