"""Roles: a closed declaration, which every migrate makes true, and which nothing else adds to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.contrib.admin.sites import site
from django.contrib.auth.models import Group, Permission, User
from django.core.management import call_command
from django.test import RequestFactory
from django.urls import reverse

from jobs.pages import MAY_RUN
from piherder.accounts.roles import PERMISSIONS, Role, make_groups, role_of
from tests import people
from tests.factories import make_host

if TYPE_CHECKING:
    from pytest_django import DjangoAssertNumQueries

pytestmark = pytest.mark.django_db


def rights(user: User) -> frozenset[str]:
    """What a user may do, read anew."""
    return frozenset(User.objects.get(pk=user.pk).get_all_permissions())


def test_every_declared_permission_exists() -> None:
    there = {f"{p.content_type.app_label}.{p.codename}" for p in Permission.objects.select_related("content_type")}
    assert PERMISSIONS[Role.ADMIN] <= there


def test_each_role_has_what_the_one_below_has() -> None:
    viewer, operator, admin = (PERMISSIONS[role] for role in Role)
    assert viewer < operator < admin
    assert all(name.split(".")[1].startswith("view_") for name in viewer)
    assert (MAY_RUN in viewer, MAY_RUN in operator) == (False, True)


@pytest.mark.parametrize("role", Role)
def test_who_has_a_role_may_what_is_declared(role: Role) -> None:
    user = people.make_user("someone", role)
    assert (rights(user), role_of(user)) == (PERMISSIONS[role], role)


def test_who_has_no_role_reads() -> None:
    user = people.make_user("someone")
    assert (rights(user), role_of(user)) == (PERMISSIONS[Role.VIEWER], Role.VIEWER)


def test_a_group_that_is_not_declared_adds_nothing() -> None:
    group, user = Group.objects.create(name="wheel"), people.make_user("someone")
    group.permissions.set(Permission.objects.all())
    user.groups.add(group)
    assert (rights(user), role_of(user)) == (PERMISSIONS[Role.VIEWER], Role.VIEWER)


def test_a_right_given_to_one_user_is_passed_over() -> None:
    user = people.make_user("someone")
    user.user_permissions.set(Permission.objects.filter(codename="add_job"))
    assert not User.objects.get().has_perm(MAY_RUN)


def test_who_is_kept_out_may_nothing() -> None:
    assert rights(people.make_user("someone", Role.ADMIN, is_active=False)) == set()


def test_a_superuser_is_an_admin() -> None:
    assert role_of(User.objects.create_superuser("root")) == Role.ADMIN


def test_migrate_takes_back_what_was_changed_by_hand() -> None:
    viewer = Group.objects.get(name=Role.VIEWER)
    viewer.permissions.set(Permission.objects.filter(codename="add_job"))
    Group.objects.filter(name=Role.OPERATOR).delete()
    call_command("migrate", verbosity=0)
    for role in Role:
        assert rights(people.make_user(role, role)) == PERMISSIONS[role]


def test_groups_that_are_right_are_only_looked_at(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    with django_assert_num_queries(7):
        make_groups()


def test_rights_cost_one_query(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    user = User.objects.get(pk=people.make_user("someone", Role.OPERATOR).pk)
    with django_assert_num_queries(1):
        assert user.has_perms([MAY_RUN, "hosts.view_host"])
        assert not user.has_perm("auth.change_user")


@pytest.mark.parametrize("model", sorted(site._registry, key=str), ids=lambda model: model.__name__)
def test_who_reads_finds_no_action_in_the_admin(model: type) -> None:
    request = RequestFactory().get("/")
    request.user = people.make_user("someone")
    assert site._registry[model].get_actions(request) == {}


@pytest.mark.parametrize(("role", "shown"), [(Role.VIEWER, False), (Role.OPERATOR, True), (Role.ADMIN, True)])
def test_commands_around_a_backup_are_for_those_who_may_edit_them(role: Role, shown: bool) -> None:
    host = make_host(before_hook="mysqldump -pPLANTED", after_hook="umount -pPLANTED")
    page = people.signed_in("someone", role).get(reverse("admin:hosts_host_change", args=[host.pk]))
    assert page.status_code == 200
    assert (page.content.decode().count("PLANTED") == 2) is shown


@pytest.mark.parametrize("role", Role)
def test_flags_of_django_open_nothing(role: Role) -> None:
    staff = people.signed_in("someone", role, is_staff=True)
    assert (staff.get("/admin/auth/user/").status_code == 200) is (role == Role.ADMIN)
    assert staff.get("/admin/auth/group/").status_code == 404
