"""From a host's row to what SSH needs."""

from __future__ import annotations

import pytest

from hosts.access import NoWay, target_of
from hosts.models import Credential, Host, HostKey
from hosts.vault import SealBroken, seal
from tests.factories import make_host

pytestmark = pytest.mark.django_db


def sealed_host(name: str, **fields: object) -> Host:
    host = make_host(name, **fields)
    Credential.objects.filter(pk=host.credential_id).update(private_key_sealed=seal(f"key of {name}"))
    host.credential.refresh_from_db()
    return host


def test_a_target_has_all_that_ssh_needs() -> None:
    host = sealed_host("pi1", port=2222, user="pi", sudo_password_sealed=seal("S3cr3t"))
    HostKey.objects.create(host=host, key_type="ssh-ed25519", public="AAAA", fingerprint="x")
    target = target_of(host)
    assert (target.name, target.address, target.port, target.user) == ("pi1", "192.0.2.1", 2222, "pi")
    assert (target.private_key, target.sudo_password) == ("key of pi1", "S3cr3t")
    assert [pin.line for pin in target.pins] == ["ssh-ed25519 AAAA"]


def test_no_secret_is_in_the_words_of_a_target() -> None:  # case G16
    target = target_of(sealed_host("pi1", sudo_password_sealed=seal("S3cr3t")))
    assert "S3cr3t" not in repr(target)
    assert "key of" not in repr(target)


def test_no_sudo_password_is_none() -> None:
    assert target_of(sealed_host("pi1")).sudo_password is None


def test_each_jump_host_has_its_own_key() -> None:
    inner = sealed_host("inner", jump=sealed_host("middle", jump=sealed_host("outer")))
    middle = target_of(inner).jump
    assert middle is not None
    assert middle.jump is not None
    assert (middle.private_key, middle.jump.private_key, middle.jump.jump) == ("key of middle", "key of outer", None)


def test_a_host_that_is_its_own_jump_host_has_no_way() -> None:
    host = sealed_host("pi1")
    Host.objects.filter(pk=host.pk).update(jump=host)
    with pytest.raises(NoWay, match=r"The jump hosts of pi1 run in a circle: edit one of them\."):
        target_of(Host.objects.get(pk=host.pk))


def test_a_broken_seal_is_told() -> None:
    with pytest.raises(SealBroken):
        target_of(make_host("pi1"))
