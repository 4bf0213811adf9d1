"""Changes of accounts, one for every door: whatever is done, one active admin stays."""

from __future__ import annotations

import secrets
from contextlib import contextmanager
from typing import TYPE_CHECKING

from django.contrib.auth.models import Group, User
from django.db import transaction
from django.db.models import Q

from piherder.accounts import limits, second_step, sessions
from piherder.accounts.roles import Role

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.db.models import QuerySet

LAST = "Nothing was changed, because this would leave no active admin: give another account the role admin first."


class LastAdmin(Exception):
    """The change would leave nobody who can manage accounts; the text is one sentence."""

    def __init__(self) -> None:
        super().__init__(LAST)


def admins() -> QuerySet[User]:
    """Everyone who can manage accounts now."""
    return User.objects.filter(Q(is_superuser=True) | Q(groups__name=Role.ADMIN), is_active=True).distinct()


def lock_admins() -> None:
    """Let nobody else change accounts until the transaction around us ends.

    The row of the group is the lock; SQLite locks the whole database when a transaction begins.
    """
    Group.objects.select_for_update().get_or_create(name=Role.ADMIN)


def require_an_admin() -> None:
    """Raises LastAdmin when none is left."""
    if not admins().exists():
        raise LastAdmin


@contextmanager
def an_admin_stays() -> Iterator[None]:
    """A change of accounts as one transaction, undone with LastAdmin when it leaves no active admin."""
    with transaction.atomic():
        lock_admins()
        yield
        require_an_admin()


def give_role(user: User, role: Role) -> None:
    """Give exactly this role, inside `an_admin_stays`."""
    user.groups.set([Group.objects.get_or_create(name=role.value)[0]])
    if user.is_superuser:
        user.is_superuser = False
        user.save(update_fields=["is_superuser"])


def set_role(user: User, role: Role) -> None:
    """Give exactly this role. Raises LastAdmin."""
    with an_admin_stays():
        give_role(user, role)


def set_active(user: User, active: bool) -> None:
    """Let an account in or keep it out. Raises LastAdmin."""
    with an_admin_stays():
        user.is_active = active
        user.save(update_fields=["is_active"])
        if not active:
            sessions.end_all(user)


def recover(user: User) -> str:
    """Make an account an active admin with a new password, which is returned, and free its way in: the second step
    goes, sessions end."""
    password = secrets.token_urlsafe(12)
    with an_admin_stays():
        user.set_password(password)
        user.is_active = True
        user.save()
        give_role(user, Role.ADMIN)
        limits.unlock()
        second_step.remove(user)
        sessions.end_all(user)
    return password


def make_first_admin(name: str, password: str) -> bool:
    """Make the first admin; False, and nothing done, when there is one already, even one who is kept out."""
    with transaction.atomic():
        lock_admins()
        if User.objects.filter(Q(is_superuser=True) | Q(groups__name=Role.ADMIN)).exists():
            return False
        give_role(User.objects.create_user(name, password=password), Role.ADMIN)
    return True
