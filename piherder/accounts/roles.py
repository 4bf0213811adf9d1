"""What each role may do: three Django groups, whose permissions are declared here and nowhere else.

* A viewer reads: jobs with their logs (the engine's own words, masked), hosts with their facts, schedules, names and
  figures of backups. Never what a generation holds, not even its list of files, nor the commands around a backup,
  which may hold passwords.
* An operator also asks for, cancels and repeats jobs, holds the herd, pauses hosts, looks into generations, restores
  from them, keeps them, and edits hosts and sources. Who may do that is root on every host.
* An admin also has what proves and opens: users, login keys and host keys, backup roots, schedules and settings.

Nothing else counts: who is in none of these groups, or in one that is not named here, reads, and a permission given to
a single user is passed over. Django's superusers are admins. Every migrate makes the groups what is declared, so an
upgrade brings its rights along.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import Group, Permission, User
from django.db import models
from django.db.models import OuterRef, Q, Subquery

from piherder.accounts.models import Authenticator, Rules

if TYPE_CHECKING:
    from django.db.models import QuerySet


class Role(models.TextChoices):
    """From the least to the most; the values are the names of the groups."""

    VIEWER = "viewer", "Viewer: reads"
    OPERATOR = "operator", "Operator: runs jobs, edits hosts"
    ADMIN = "admin", "Admin: everything, also users, keys and settings"


def _may(app: str, verbs: str, names: str) -> frozenset[str]:
    return frozenset(f"{app}.{verb}_{name}" for verb in verbs.split() for name in names.split())


SCHEDULES = "periodictask crontabschedule intervalschedule solarschedule clockedschedule"
VIEWS = (
    _may("jobs", "view", "job jobevent lane workernode beatlease schedulefire enginesettings")
    | _may("hosts", "view", "host source hostkey hostfacts credential backuproot generation")
    | _may("django_celery_beat", "view", SCHEDULES)
    | _may("django_celery_results", "view", "taskresult groupresult")
)
OPERATES = _may("jobs", "add", "job") | _may("hosts", "add change", "host source")
ADMINISTERS = (
    _may("auth", "view add change delete", "user")
    | _may("hosts", "add change delete", "credential")
    | _may("hosts", "add delete", "hostkey")
    | _may("hosts", "add change", "backuproot")
    | _may("jobs", "add change", "enginesettings")
    | _may("django_celery_beat", "add change delete", SCHEDULES)
)
PERMISSIONS = {
    Role.VIEWER: VIEWS,
    Role.OPERATOR: VIEWS | OPERATES,
    Role.ADMIN: VIEWS | OPERATES | ADMINISTERS,
}


def make_groups(**_: Any) -> None:
    """Make each group exactly what is declared; after every migrate, when all permissions are there."""
    ids = {
        f"{app}.{codename}": pk
        for pk, app, codename in Permission.objects.values_list("pk", "content_type__app_label", "codename")
    }
    for role, names in PERMISSIONS.items():
        group, _created = Group.objects.get_or_create(name=role.value)
        wanted = {ids[name] for name in names if name in ids}  # a database on its way lacks some
        if wanted != set(group.permissions.values_list("pk", flat=True)):
            group.permissions.set(wanted)


def role_of(user: User) -> Role:
    """The highest role that a user has."""
    names = {group.name for group in user.groups.all()}
    if user.is_superuser or Role.ADMIN in names:
        return Role.ADMIN
    return Role.OPERATOR if Role.OPERATOR in names else Role.VIEWER


class RoleBackend(ModelBackend):
    """Passwords as usual; permissions come from the roles alone."""

    def get_user(self, user_id: int) -> User | None:
        """The account of a session, with its authenticator's id and the moment from which it needs one: one query."""
        app = Authenticator.objects.filter(user=OuterRef("pk"), confirmed=True).values("pk")[:1]
        moment = Rules.objects.filter(pk=1).values("second_step_from")
        users = User.objects.annotate(authenticator_id=Subquery(app), second_step_from=Subquery(moment))
        user = users.filter(pk=user_id).first()
        return user if user is not None and self.user_can_authenticate(user) else None

    def _get_user_permissions(self, user_obj: User) -> QuerySet[Permission]:
        return Permission.objects.none()

    def _get_group_permissions(self, user_obj: User) -> QuerySet[Permission]:
        own = Q(name__in=Role.values, user=user_obj)
        return Permission.objects.filter(group__in=Group.objects.filter(Q(name=Role.VIEWER) | own))
