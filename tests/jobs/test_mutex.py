"""Never two copies on one host: the mutex in a real Redis, taken, kept and given back by its owner only."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest
from redis.exceptions import ConnectionError as NoConnection

from jobs import mutex
from jobs.mutex import HostMutex, Kept, RedisAway
from tests.factories import make_host, make_job, running_on

if TYPE_CHECKING:
    from hosts.models import Host
    from jobs.models import Job
    from jobs.node import Me
    from tests.jobs.conftest import CutRedis


def of(job: Job, *hosts: Host) -> HostMutex:
    """The mutex of a job's attempt, over these hosts."""
    assert job.attempt
    return HostMutex.of([host.pk for host in hosts] or [job.host_id or 0], job.pk, job.attempt)


@pytest.fixture
def job(host: Host, me: Me) -> Job:
    return running_on(me, make_job("copy", host))


@pytest.fixture
def rival(host: Host, me: Me) -> Job:
    return running_on(me, make_job("bring", host))


def held(host: Host) -> str | None:
    value = mutex.client().get(mutex.key(host.pk))
    return None if value is None else str(value)


def test_a_taken_mutex_names_its_owner_and_ends_by_itself(job: Job, host: Host) -> None:
    assert of(job).take() == ""
    assert held(host) == f"{job.pk}:{job.attempt}"
    assert 0 < int(mutex.client().pttl(mutex.key(host.pk))) <= 60_000


def test_the_name_of_the_key_is_a_promise() -> None:
    assert mutex.key(7) == "piherder:server_lock:backup:7"


def test_another_gets_the_holders_token(job: Job, rival: Job) -> None:
    of(job).take()
    assert of(rival).take() == f"{job.pk}:{job.attempt}"


def test_taking_twice_is_taking_once(job: Job) -> None:
    of(job).take()
    assert of(job).take() == ""


def test_a_release_frees_it(job: Job, rival: Job, host: Host) -> None:
    of(job).take()
    of(job).release()
    assert held(host) is None
    assert of(rival).take() == ""


def test_a_release_never_removes_anothers_key(job: Job, rival: Job, host: Host) -> None:
    # case H23
    of(job).take()
    mutex.client().delete(mutex.key(host.pk))  # it ran out while its owner was frozen
    of(rival).take()
    of(job).release()
    assert held(host) == f"{rival.pk}:{rival.attempt}"


def test_an_owner_that_finds_anothers_key_has_lost(job: Job, rival: Job, host: Host) -> None:
    # case H23
    of(job).take()
    mutex.client().delete(mutex.key(host.pk))
    of(rival).take()
    assert of(job).renew() is Kept.LOST


def test_a_renewal_prolongs(job: Job, host: Host) -> None:
    of(job).take()
    mutex.client().pexpire(mutex.key(host.pk), 500)
    assert of(job).renew() is Kept.OURS
    assert int(mutex.client().pttl(mutex.key(host.pk))) > 50_000


def test_a_key_that_is_gone_is_set_again(job: Job, host: Host) -> None:
    # case H18
    of(job).take()
    mutex.client().flushdb()
    assert of(job).renew() is Kept.OURS
    assert held(host) == f"{job.pk}:{job.attempt}"


@pytest.mark.parametrize("token", [f"1:{uuid.UUID(int=7)}", "not a token", "x:y", f"{9**40}:{uuid.UUID(int=7)}", ""])
def test_a_stale_key_without_an_end_is_removed(job: Job, host: Host, token: str) -> None:
    # case H22
    mutex.client().set(mutex.key(host.pk), token)
    assert of(job).take() == ""
    assert int(mutex.client().pttl(mutex.key(host.pk))) > 0


def test_a_token_of_an_older_attempt_is_stale(job: Job, host: Host) -> None:
    mutex.client().set(mutex.key(host.pk), f"{job.pk}:{uuid.uuid4()}")
    assert of(job).take() == ""


def test_a_renewal_removes_a_stale_key(job: Job, host: Host) -> None:
    mutex.client().set(mutex.key(host.pk), f"1:{uuid.uuid4()}")
    assert of(job).renew() is Kept.OURS


def test_two_hosts_are_taken_both_or_none(job: Job, rival: Job, host: Host) -> None:
    peer = make_host()
    of(rival, peer).take()
    assert of(job, host, peer).take() == f"{rival.pk}:{rival.attempt}"
    assert held(host) is None


def test_the_lower_host_comes_first(job: Job, host: Host) -> None:
    peer = make_host()
    assert of(job, peer, host).host_ids == (host.pk, peer.pk)


def test_one_lost_host_of_two_is_lost(job: Job, rival: Job, host: Host) -> None:
    peer = make_host()
    both = of(job, host, peer)
    both.take()
    mutex.client().delete(mutex.key(peer.pk))
    of(rival, peer).take()
    assert both.renew() is Kept.LOST


def test_without_redis_nobody_takes_it(job: Job, redis_away: CutRedis) -> None:
    with pytest.raises(RedisAway, match=r"^Redis does not answer\.$"):
        of(job).take()


def test_without_redis_nothing_is_lost(job: Job, host: Host, redis_away: CutRedis) -> None:
    assert of(job).renew() is Kept.UNREACHABLE
    of(job).release()
    redis_away.back()
    assert of(job).renew() is Kept.OURS


def test_the_cut_is_real(redis_away: CutRedis) -> None:
    with pytest.raises(NoConnection):
        mutex.client().ping()
