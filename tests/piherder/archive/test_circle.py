"""The circle on one machine: a host is backed up, the herder with it, encrypted; another herder brings both back."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from django.conf import settings as live

from hosts.models import HostKey
from hosts.store.layout import INFO
from jobs.models import Failure
from tests.hosts.conftest import login_key
from tests.hosts.families.conftest import make_pi, pi, root
from tests.piherder.archive.fresh import archive_of

if TYPE_CHECKING:
    from tests.hosts.families.conftest import Pi
    from tests.piherder.archive.conftest import Herder
    from tests.piherder.archive.fresh import Elsewhere

__all__ = ("login_key", "make_pi", "pi", "root")

WORK = """
import os
from hosts.models import Generation, Host, Source
from jobs import node, runner
from jobs.models import Door, Job, WorkerNode
from jobs.services import Asker, Refused, release, request_job
me = node.become("celery@elsewhere")
WorkerNode.objects.create(boot=me.boot, name=me.name, pid=os.getpid(), slots=1)
host, asker = Host.objects.get(name="pi1"), Asker(Door.COMMAND, name="test")
answer = [Generation.objects.filter(status="good").count()]
def work(kind, **params):
    job = request_job(kind, host.pk, params, asker=asker).job
    runner.run(job.pk)
    job.refresh_from_db()
    answer.append([job.status, job.error])
try:
    work("restore", source=Source.objects.get().path)
except Refused as refused:
    answer.append(str(refused))
release()
work("restore", source=Source.objects.get().path)
work("backup")
answer.append(list(Job.objects.filter(kind="herder_backup").values_list("status", "summary")))
"""


def test_the_circle_closes_on_another_machine(herder: Herder, pi: Pi, elsewhere: Elsewhere) -> None:
    assert pi.run("backup").status == "succeeded"
    phrase, archive = herder.encrypt(), archive_of(herder)
    (pi.data / "later").write_text("only the disk tells of it")
    assert pi.run("backup").status == "succeeded"
    record = json.loads((pi.good()[0].path / INFO).read_text())
    assert record["host_keys"] == [HostKey.objects.get().fingerprint]
    shutil.rmtree(pi.data)

    said = elsewhere.restore(archive, "--passphrase-file", str(phrase))
    assert "a herder that still runs there is refused by them" in said
    count, refused, restored, backed_up, archived = elsewhere.ask(WORK, REDIS_URL=live.PIHERDER_REDIS_URL)
    assert count == 2
    assert f"on hold (restored from {archive.name})" in refused
    assert (restored, backed_up) == (["succeeded", ""], ["succeeded", ""])
    assert archived == [["succeeded", f"Made {archive.name}, which this herder was restored from."]]
    assert (pi.data / "later").read_text() == "only the disk tells of it"

    # The machine that was thought to be lost was not: it is told apart and touches no backup any more.
    before = sorted(Path(pi.root.path).rglob("*"))
    late = pi.run("backup")
    assert (late.status, late.failure) == ("failed", Failure.NOT_MOUNTED)
    assert "belongs to another installation" in late.error
    assert sorted(Path(pi.root.path).rglob("*")) == before
