"""Retention where folders have gone from the disk without their rows."""

from __future__ import annotations

import shutil
from datetime import timedelta

from django.utils import timezone

from hosts.store.layout import list_generations
from jobs.services import request_job

from .conftest import ASKER, Pi, carry_out


def test_what_cannot_be_restored_takes_no_place_of_what_can(off_pi: Pi) -> None:
    off_pi.edit(keep_last=2, keep_daily=0, keep_weekly=0, keep_monthly=0)
    rows = [off_pi.keep(started_at=timezone.now() - timedelta(days=age)) for age in (4, 3, 2, 1)]
    for row in rows[2:]:
        shutil.rmtree(row.path)
    assert carry_out(request_job("retention", None, {}, asker=ASKER).job).summary.startswith("0 generations removed")
    assert [found.sequence for found in list_generations(off_pi.folder)] == [1, 2]
