"""`make upgrade` on a Debian host with systemd, forwards, back, and in the middle of a failure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from piherder.house.upgrade import RECORD
from tests.lab.base import comes
from tests.lab.installed import COPY, GOOD, UP_SECONDS

if TYPE_CHECKING:
    from tests.lab.installed import House

# Ends when the test says so, and in any case.
BUSY = "for _ in $(seq 3000); do test -e /root/busy || exit 0; sleep 0.2; done"
# Not atomic: what it made before it fails stays in the database, unless the copy comes back.
BAD = """\
from django.db import migrations

def fail(apps, schema_editor):
    raise ValueError("this migration is broken")

class Migration(migrations.Migration):
    atomic = False
    dependencies = [("jobs", "{last}")]
    operations = [migrations.RunSQL("CREATE TABLE half_made (id integer)"), migrations.RunPython(fail)]
"""


def test_an_upgrade_keeps_data_and_there_is_a_way_back(house: House) -> None:
    old = house.release()
    house.host.run("echo PIHERDER_RESERVED_SLOTS=0 >> /etc/piherder/piherder.env")
    house.change_clone("9.1", GOOD)
    said = house.make("upgrade", "--yes").stdout
    assert house.release().startswith("9.1-")
    assert "proof_of_upgrade" in house.tables()
    assert "self" in house.herder("hosts").stdout
    assert "PIHERDER_RESERVED_SLOTS=0" in house.host.run("cat /etc/piherder/piherder.env").stdout
    assert house.status()["holds"] == []
    assert "sudo make upgrade ARGS=--back" in said
    house.make("upgrade", "--back --yes")
    assert house.release() == old
    assert "proof_of_upgrade" not in house.tables()
    assert comes(house.is_well, UP_SECONDS), house.status()["problems"]


def test_the_printed_lines_go_back_too(house: House) -> None:
    old = house.release()
    house.change_clone("9.2", GOOD)
    said = house.make("upgrade", "--yes").stdout
    lines = said.partition("or, without this clone:\n")[2].replace("sudo ", "").replace("&& herder status", "")
    house.host.run(f"set -e\n{lines}", seconds=200)
    assert house.release() == old
    assert "proof_of_upgrade" not in house.tables()
    assert comes(house.is_well, UP_SECONDS), house.status()["problems"]


def test_a_failed_migration_goes_back_by_itself(house: House) -> None:
    old = house.release()
    house.change_clone("9.3", BAD)
    done = house.make("upgrade", "--yes", check=False)
    assert done.code != 0
    assert "this migration is broken" in done.stderr
    assert f"everything is as it was before, with {old}" in done.stderr
    assert house.release() == old
    assert "half_made" not in house.tables()
    assert house.status()["holds"] == []
    assert comes(house.is_well, UP_SECONDS), house.status()["problems"]


def test_code_that_does_not_start_goes_back_by_itself(house: House) -> None:
    old = house.release()
    house.change_clone("9.4")
    house.host.run(f"echo 'raise SystemExit(1)' >> {COPY}/piherder/wsgi.py")
    house.host.run(f"sed -i 's/^UP_SECONDS = .*/UP_SECONDS = 20.0/' {COPY}/piherder/house/install.py")
    done = house.make("upgrade", "--yes", check=False)
    assert "Not up after 20 s: the pages" in done.stderr
    assert f"everything is as it was before, with {old}" in done.stderr
    assert (house.release(), house.status()["holds"]) == (old, [])
    assert comes(house.is_well, UP_SECONDS), house.status()["problems"]


def test_an_upgrade_gives_up_on_a_long_job_by_name(house: House) -> None:
    old = house.release()
    house.host.run("touch /root/busy")
    house.herder("edit_host", "self", "--before-hook", BUSY)
    house.herder("run_job", "backup", "--host", "self")
    assert comes(lambda: house.status()["jobs"]["running"] == 1, 30)
    house.change_clone("9.5")
    try:
        done = house.make("upgrade", "--yes --wait 0", check=False)
        assert re.search(r"Still at work after 0 min: job \d+ \(backup on self\). Nothing was changed", done.stderr)
        assert (house.release(), house.status()["holds"]) == (old, [])
    finally:
        house.host.run("rm /root/busy")
        house.herder("edit_host", "self", "--before-hook", "")
        assert comes(lambda: house.status()["jobs"]["running"] == 0, 90)


def test_a_hold_of_a_person_stays(house: House) -> None:
    house.herder("hold", "--reason", "holidays")
    house.change_clone("9.6")
    house.make("upgrade", "--yes")
    assert "holidays" in house.status()["holds"][0]
    house.herder("release")
    house.make("upgrade", "--back --yes")
    house.herder("release")


def test_records_are_roots_alone(house: House) -> None:
    found = house.host.run(f"find /opt/piherder ! -user root -o -name {RECORD} -perm /022").stdout
    assert found == ""
