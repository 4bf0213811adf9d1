"""The facts script, run for real: on this machine, in every shell there is, and among commands that hang or lie."""

import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from hosts.facts import Facts, argv, parse
from hosts.facts.framing import SECTIONS
from hosts.facts.script import text

SHELLS = [shell for shell in ("sh", "dash", "bash --posix", "busybox sh") if shutil.which(shell.split()[0])]
LOGIN_SHELLS = [shell for shell in ("sh", "bash", "fish", "tcsh") if shutil.which(shell)]
SYSTEM_PATH = "/usr/bin:/bin"


class Machine:
    """A folder of fake commands and a folder of fake system files, before those of this machine."""

    def __init__(self, folder: Path) -> None:
        self.commands = folder / "commands"
        self.root = folder / "root"
        self.commands.mkdir()
        self.file("proc/self/mounts", "/dev/sda1 / ext4 rw 0 0\n")
        (self.root / "run/systemd/system").mkdir(parents=True)

    def command(self, name: str, body: str) -> None:
        path = self.commands / name
        path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
        path.chmod(0o755)

    def file(self, name: str, content: str, changed: float | None = None) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
        if changed is not None:
            os.utime(path, (changed, changed))
        return path

    def output(self, shell: str = "sh", **more: str) -> str:
        environment = {"PATH": f"{self.commands}:{SYSTEM_PATH}", "PIHERDER_FACTS_ROOT": str(self.root)} | more
        return run([*shell.split(), "-c", text()], environment)

    def facts(self, shell: str = "sh", **more: str) -> Facts:
        return parse(self.output(shell, **more))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def run(command: list[str] | tuple[str, ...], environment: Mapping[str, str] | None = None) -> str:
    """Run a command that must say nothing on stderr, and return what it prints."""
    done = subprocess.run(
        command,
        env=environment or {"PATH": SYSTEM_PATH},
        capture_output=True,
        timeout=30,
        check=True,
        stdin=subprocess.DEVNULL,
    )
    assert done.stderr == b""
    return done.stdout.decode("utf-8", "replace")


@pytest.mark.parametrize("shell", SHELLS)
def test_this_machine(shell: str) -> None:
    facts = parse(run([*shell.split(), "-c", text()]))
    kernel = os.uname()
    assert (facts.kernel, facts.arch, facts.hostname) == (kernel.release, kernel.machine, kernel.nodename)
    assert facts.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    assert facts.cpus == len(os.sched_getaffinity(0))
    assert facts.problems == ()


@pytest.mark.parametrize("shell", SHELLS)
def test_disks_of_this_machine(shell: str) -> None:
    disks = parse(run([*shell.split(), "-c", text()])).disks or ()
    [root] = [disk for disk in disks if disk.mount == "/"]
    real = os.statvfs("/")
    assert (root.bytes_total, root.inodes_total) == (real.f_blocks * real.f_frsize, real.f_files or None)


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_says_the_same(shell: str) -> None:
    one, other = (parse(run([*each.split(), "-c", text()])) for each in (shell, "sh"))
    assert (one.os, one.tools, one.addresses, one.machine_id_hash) == (
        other.os,
        other.tools,
        other.addresses,
        other.machine_id_hash,
    )


# case G09
@pytest.mark.parametrize("shell", LOGIN_SHELLS)
def test_every_login_shell_passes_the_script_on(shell: str) -> None:
    line = " ".join(f"'{word}'" for word in argv())
    assert "'" not in "".join(argv())
    assert "!" not in "".join(argv())
    assert parse(run([shell, "-c", line])).problems == ()


def test_it_takes_less_than_two_seconds() -> None:
    begun = time.monotonic()
    run(argv())
    assert time.monotonic() - begun < 2


def test_every_section_comes_once_and_in_order() -> None:
    begins = [line.split()[2] for line in run(argv()).splitlines() if line.startswith("@@piherder begin")]
    assert begins == list(SECTIONS)


def test_a_script_that_arrived_cut_does_nothing() -> None:
    assert run(["sh", "-c", text()[: text().rindex("\nmain")]]) == ""


def test_it_works_without_root() -> None:
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"]
    command = [*(nobody if os.getuid() == 0 else []), *argv()]
    assert parse(run(command)).problems == ()


@pytest.mark.parametrize("shell", SHELLS)
def test_commands_that_hang_are_ended_and_named(machine: Machine, shell: str) -> None:
    hanging = ("docker", "systemctl", "vcgencmd", "timedatectl", "chronyc")
    for name in hanging:
        machine.command(name, "exec sleep 60")
    begun = time.monotonic()
    facts = machine.facts(shell, PIHERDER_FACTS_LIMIT="0.2")
    assert time.monotonic() - begun < 8
    assert set(facts.problems) == {f"{name} did not answer in time" for name in hanging}
    assert (facts.failed_units, facts.throttling, facts.clock_synchronised) == (None, None, None)


def test_a_disk_that_hangs_leaves_the_others(machine: Machine) -> None:
    machine.file("proc/self/mounts", "/dev/sda1 / ext4 rw 0 0\n/dev/sdb1 /usr vfat rw 0 0\n")
    machine.command("stat", 'case "$*" in *" -- /") exec sleep 60 ;; esac\nexec /usr/bin/stat "$@"')
    facts = machine.facts(PIHERDER_FACTS_LIMIT="0.3")
    assert [(disk.mount, disk.bytes_total is None) for disk in facts.disks or ()] == [("/", True), ("/usr", False)]
    assert "stat did not answer in time" in facts.problems


def test_a_command_that_ignores_the_polite_signal_is_killed(machine: Machine) -> None:
    machine.command("vcgencmd", "trap '' TERM\nwhile :; do read -r line </dev/zero; done")
    assert "vcgencmd did not answer in time" in machine.facts(PIHERDER_FACTS_LIMIT="0.1").problems


def test_a_script_that_used_up_its_time_still_ends(machine: Machine) -> None:
    facts = machine.facts(PIHERDER_FACTS_BUDGET="0")
    assert "stat did not answer in time" in facts.problems
    assert facts.memory_total is not None


def test_a_machine_without_timeout(machine: Machine) -> None:
    machine.command("timeout", "exit 127")
    assert machine.facts().problems == ()


def test_timeout_of_an_old_busybox_knows_no_kill(machine: Machine) -> None:
    machine.command("timeout", '[ "$1" = -k ] && exit 1\nexec /usr/bin/timeout "$@"')
    machine.command("docker", "exec sleep 60")
    assert "docker did not answer in time" in machine.facts(PIHERDER_FACTS_LIMIT="0.2").problems


def test_output_without_end_is_cut(machine: Machine) -> None:
    machine.command("systemctl", "exec yes x.service loaded failed failed")
    output = machine.output(PIHERDER_FACTS_LIMIT="2")
    assert len(output) < 60_000
    assert parse(output).problems == ("section failed_units did not arrive whole",)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_raspberry_pi(machine: Machine, shell: str) -> None:
    machine.file("etc/os-release", 'ID=debian\nVERSION_ID="12"\n')
    machine.file("etc/rpi-issue", "Raspberry Pi reference")
    machine.file("proc/device-tree/model", "Raspberry Pi 4 Model B Rev 1.4\0")
    machine.command("vcgencmd", 'case "$1" in get_throttled) echo throttled=0x50005 ;; *) echo "temp=48.7\'C" ;; esac')
    facts = machine.facts(shell)
    assert (facts.os.raspberry_pi_os, facts.model) == (True, "Raspberry Pi 4 Model B Rev 1.4")
    assert facts.throttling is not None
    assert (facts.throttling.now, facts.temperature) == (("under-voltage", "throttled"), 48.7)


def test_throttling_from_the_kernel_where_the_user_may_not_ask_the_firmware(machine: Machine) -> None:
    machine.command("vcgencmd", "echo 'VCHI initialization failed'\nexit 1")
    machine.file("sys/devices/platform/soc/soc:firmware/get_throttled", "50000\n")
    throttling = machine.facts().throttling
    assert throttling is not None
    assert throttling.since_boot == ("under-voltage", "throttled")


@pytest.mark.parametrize("shell", SHELLS)
def test_a_pc(machine: Machine, shell: str) -> None:
    machine.file("sys/class/dmi/id/sys_vendor", "LENOVO\n")
    machine.file("sys/class/dmi/id/product_name", "10MQS0UN00\n")
    machine.file("sys/class/thermal/thermal_zone0/type", "acpitz\n")
    machine.file("sys/class/thermal/thermal_zone0/temp", "27800\n")
    machine.file("sys/class/hwmon/hwmon1/name", "k10temp\n")
    machine.file("sys/class/hwmon/hwmon1/temp1_input", "61125\n")
    facts = machine.facts(shell)
    assert (facts.model, facts.temperature) == ("LENOVO 10MQS0UN00", 61.1)


def test_proxmox(machine: Machine) -> None:
    machine.file("etc/os-release", 'ID=debian\nVERSION_ID="12"\n')
    machine.command("pveversion", "exit 1")
    machine.command("dpkg-query", "printf 8.2.4")
    assert machine.facts().os.proxmox_version == "8.2.4"


# case A16
def test_a_german_host_is_asked_in_english(machine: Machine) -> None:
    english = '[ "$LC_ALL" = C ] && [ -z "${LANGUAGE:-}" ]'
    words = f'if {english}; then echo "Leap status : Normal"; else echo "Schaltstatus : Normal"; fi'
    machine.command("chronyc", words)
    german = {"LC_ALL": "de_DE.UTF-8", "LANG": "de_DE.UTF-8", "LANGUAGE": "de"}
    assert machine.facts(**german).clock_synchronised is True


def test_an_old_timedatectl_that_cannot_show(machine: Machine) -> None:
    machine.command("timedatectl", '[ "$1" = show ] && exit 1\necho "     NTP synchronized: no"')
    assert machine.facts().clock_synchronised is False


# case G08
def test_latin_1_in_the_output(machine: Machine) -> None:
    machine.command("systemctl", r"printf 'caf\351.service loaded failed failed Gr\374\337e\n'")
    facts = machine.facts()
    assert (facts.problems, len(facts.failed_units or ())) == ((), 1)


def test_only_disks_are_asked(machine: Machine) -> None:
    machine.file(
        "proc/self/mounts",
        "overlay / overlay rw 0 0\n"
        "nas:/export /proc nfs4 rw 0 0\n"
        "//nas/share /sys cifs rw,password=secret 0 0\n"
        "/dev/loop3 /snap/core/1 squashfs ro 0 0\n"
        "/dev/sda1 /snap/bare ext4 ro 0 0\n"
        "/dev/sda1 /var/lib/docker/volumes ext4 rw 0 0\n"
        "overlay /var/lib/docker/overlay2/x/merged overlay rw 0 0\n"
        "tmpfs /run tmpfs rw 0 0\n",
    )
    output = machine.output()
    assert [disk.mount for disk in parse(output).disks or ()] == ["/"]
    assert "secret" not in output


def test_mount_points_with_odd_names(machine: Machine, tmp_path: Path) -> None:
    odd = tmp_path / "a b\\c%d\té"
    odd.mkdir()
    written = str(odd).replace("\\", "\\134").replace(" ", "\\040").replace("\t", "\\011")
    machine.file("proc/self/mounts", f"/dev/sda1 {written} ext4 rw 0 0\n")
    [disk] = machine.facts().disks or ()
    assert (disk.mount, disk.bytes_total is None) == (str(odd).replace("\t", "?"), False)


def test_passwords_of_fstab_stay_on_the_host(machine: Machine) -> None:
    machine.file("proc/self/mounts", "/dev/sda1 / ext4 ro 0 0\n")
    machine.file("etc/fstab", "# / ro\n/dev/sda1 / ext4 ro,noatime 0 1\n//nas/x /mnt cifs ro,password=secret 0 0\n")
    output = machine.output()
    [disk] = parse(output).disks or ()
    assert (disk.read_only, disk.meant_read_only, "secret" in output) == (True, True, False)


# case A13
@pytest.mark.parametrize("shell", SHELLS)
def test_a_newer_kernel_is_installed(machine: Machine, shell: str) -> None:
    machine.command("uname", "echo herd 6.1.0-18-amd64 x86_64")
    machine.file("boot/vmlinuz-6.1.0-18-amd64", "")
    machine.file("boot/vmlinuz-6.1.0-22-amd64", "")
    machine.file("lib/modules/6.1.0-22-amd64/modules.dep", "", changed=time.time() + 100)
    assert machine.facts(shell).reboot.reasons == ("running 6.1.0-18-amd64, installed 6.1.0-22-amd64",)


# case A14
@pytest.mark.parametrize(("age", "required"), [(-100, True), (10**9, False)])
def test_the_flag_file(machine: Machine, age: int, required: bool) -> None:
    machine.file("run/reboot-required", "", changed=time.time() - age)
    machine.file("run/reboot-required.pkgs", "libc6\nlibc6\ndbus\n")
    reboot = machine.facts().reboot
    assert (reboot.required, reboot.packages) == (required, ("dbus", "libc6") if required else ())


def test_the_machine_id_itself_is_not_told(machine: Machine) -> None:
    secret = "0123456789abcdef0123456789abcdef"
    machine.file("etc/machine-id", f"{secret}\n")
    output = machine.output()
    assert secret not in output
    assert len(parse(output).machine_id_hash or "") == 64


def test_docker_and_compose(machine: Machine) -> None:
    version = "Docker version 27.1.1, build 6312585"
    machine.command("docker", f'case "$1" in --version) echo "{version}" ;; compose) echo 2.29.1 ;; esac')
    machine.command("docker-compose", "echo 'docker-compose version 1.29.2, build unknown'; echo docker-py")
    tools = machine.facts().tools
    assert (tools.docker, tools.compose, tools.compose_v1) == ("27.1.1", "2.29.1", "1.29.2")


def test_a_machine_that_has_ip_not(machine: Machine) -> None:
    machine.command("ip", "exit 1")
    assert machine.facts().addresses is None


@pytest.mark.parametrize("shell", SHELLS)
def test_folders_where_files_should_be_cost_their_own_section_alone(machine: Machine, shell: str) -> None:
    names = ("etc/os-release", "etc/fstab", "etc/machine-id", "sys/class/dmi/id/sys_vendor", "proc/device-tree/model")
    for name in names:
        (machine.root / name).mkdir(parents=True)
    facts = machine.facts(shell)
    assert (facts.problems, facts.os.id, facts.model) == ((), None, None)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_file_without_an_end_of_its_last_line_is_read_whole(machine: Machine, shell: str) -> None:
    machine.file("etc/os-release", "ID=debian\nVERSION_ID=12")
    assert machine.facts(shell).os.version == "12"


def test_a_file_of_many_lines_is_cut(machine: Machine) -> None:
    machine.file("etc/os-release", "ID=debian\n" + "X=1\n" * 5000)
    output = machine.output()
    assert (parse(output).os.id, output.count("X=1")) == ("debian", 199)


def test_where_systemd_does_not_run_its_programs_are_not_asked(machine: Machine) -> None:
    (machine.root / "run/systemd/system").rmdir()
    asked = machine.root / "asked"
    for name in ("systemctl", "timedatectl"):
        machine.command(name, f"echo {name} >>{asked}")
    facts = machine.facts()
    assert (asked.exists(), facts.failed_units, facts.tools.systemd) == (False, None, False)


def test_few_programs_are_started(machine: Machine) -> None:
    """Hosts are asked often, and each program costs a small one a millisecond or more."""
    started = machine.root / "started"
    names = ("cat", "head", "grep", "sed", "awk", "uname", "stat", "date", "nproc", "sha256sum", "timeout", "tr")
    for name in names:
        machine.command(name, f'echo {name} >>{started}\nexec {shutil.which(name)} "$@"')
    assert machine.facts().problems == ()
    assert len(started.read_text(encoding="ascii").splitlines()) <= 25
