"""The Redis mutex of a host: the fast line in front of the fence row in the database.

A key holds the token `job:attempt` of its owner and always has a time to live, set by the same command. Only the owner
renews or removes it; a token that names no active attempt is stale and removed by whoever meets it.
"""

from __future__ import annotations

import enum
import functools
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

import redis
from django.conf import settings
from redis.exceptions import RedisError

from jobs.models import ACTIVE, Job

if TYPE_CHECKING:
    from collections.abc import Sequence

# KEYS[1] the mutex, ARGV[1] our token, ARGV[2] its life in ms. Returns the holder's token after the call.
TAKE = """
local held = redis.call('GET', KEYS[1])
if held and held ~= ARGV[1] then return held end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return ARGV[1]
"""
# Removes the key only while it holds ARGV[1].
DROP = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"


class Kept(enum.Enum):
    """What a renewal found."""

    OURS = "ours"
    LOST = "lost"  # another active attempt holds the key
    UNREACHABLE = "unreachable"


class RedisAway(Exception):
    """Redis does not answer, so nobody can take the mutex now."""

    def __init__(self) -> None:
        super().__init__("Redis does not answer.")


def key(host_id: int) -> str:
    """Name of the mutex of a host."""
    return f"piherder:server_lock:backup:{host_id}"


@functools.cache
def client() -> redis.Redis:
    """The process's connection pool to Redis; time-outs of 5 s so that nothing hangs on a silent server."""
    return redis.Redis.from_url(
        settings.PIHERDER_REDIS_URL, socket_timeout=5, socket_connect_timeout=5, decode_responses=True
    )


@dataclass(frozen=True, slots=True)
class HostMutex:
    """The mutexes of one attempt, one per host, lower id first, all or none."""

    host_ids: Sequence[int]
    token: str
    ttl_ms: int

    @classmethod
    def of(cls, host_ids: Sequence[int], job_id: int, attempt: uuid.UUID) -> HostMutex:
        """The mutexes that `attempt` of a job needs."""
        return cls(tuple(sorted(host_ids)), f"{job_id}:{attempt}", settings.PIHERDER_SERVER_LOCK_TTL * 1000)

    def take(self) -> str:
        """Take all; returns "" or the token of the first active holder met, having taken none. Raises RedisAway."""
        try:
            for host_id in self.host_ids:
                holder = self._take_one(host_id)
                if holder != self.token:
                    self.release()
                    return holder
        except RedisError:
            self.release()
            raise RedisAway from None
        return ""

    def _take_one(self, host_id: int) -> str:
        for _ in range(2):
            holder = str(client().eval(TAKE, 1, key(host_id), self.token, self.ttl_ms))
            if holder == self.token or names_active(holder):
                return holder
            client().eval(DROP, 1, key(host_id), holder)
        return holder

    def renew(self) -> Kept:
        """Prolong all; a key that is gone is set again, because our fence in the database still stands."""
        try:
            holders = [self._take_one(host_id) for host_id in self.host_ids]
        except RedisError:
            return Kept.UNREACHABLE
        return Kept.OURS if all(holder == self.token for holder in holders) else Kept.LOST

    def release(self) -> None:
        """Remove our keys, nobody else's; a Redis that is away lets them expire."""
        for host_id in self.host_ids:
            try:
                client().eval(DROP, 1, key(host_id), self.token)
            except RedisError:
                return


def names_active(token: str) -> bool:
    """True when `token` names an attempt that is active in the database."""
    job_id, _, attempt = token.partition(":")
    try:
        return Job.objects.filter(pk=int(job_id), attempt=uuid.UUID(attempt), status__in=ACTIVE).exists()
    except ValueError:
        return False
