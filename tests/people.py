"""Browsers of people with rights."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import Group, User
from django.test import Client

from piherder.accounts.roles import Role


def make_user(name: str, role: Role | None = None, **fields: Any) -> User:
    """An account with this role, or with none."""
    user = User.objects.create_user(name, **fields)
    user.groups.set(Group.objects.filter(name=role))
    return user


def browser(user: User, *, strict: bool = False) -> Client:
    """Where this user is logged in; `strict` sends no CSRF token and gets no mercy."""
    client = Client(enforce_csrf_checks=strict)
    client.force_login(user)
    return client


def signed_in(name: str, role: Role | None = None, *, strict: bool = False, **fields: Any) -> Client:
    """The browser of a new user with this role, or with none."""
    return browser(make_user(name, role, **fields), strict=strict)


def reader() -> Client:
    """Someone who may look."""
    return signed_in("reader", Role.VIEWER)


def runner() -> Client:
    """Someone who may run jobs."""
    return signed_in("runner", Role.OPERATOR)


def boss() -> Client:
    """Someone who may do everything."""
    return signed_in("boss", Role.ADMIN)
