"""What lab images and hosts are made of: packages, first program, arguments. Pure functions."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

SUITE = "trixie"
# Each host that wants an engine starts its own; the others save the memory.
ASLEEP = ("docker.service", "docker.socket", "containerd.service")
# What needs hardware or a kernel of its own, and apt's own runs, which would take dpkg's lock in the middle of a test.
MASKED = (
    *("systemd-modules-load.service", "systemd-logind.service", "getty.target", "console-getty.service"),
    *("apt-daily.timer", "apt-daily-upgrade.timer"),
)

# Mounts what systemd expects, and gives each boot an id of its own: the kernel's is the machine's, and never changes.
INIT = """\
#!/bin/sh
set -e
umount /sys/fs/cgroup 2>/dev/null || umount -l /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
cat /proc/sys/kernel/random/uuid > /run/boot_id
mount --bind /run/boot_id /proc/sys/kernel/random/boot_id
ssh-keygen -A >/dev/null
exec /sbin/init
"""


@dataclass(frozen=True, slots=True)
class Recipe:
    """A root file system: what debootstrap includes, files laid into it, and a script run in it at the end."""

    name: str
    packages: tuple[str, ...]
    finish: str
    files: dict[str, str] = field(default_factory=dict)

    @property
    def image(self) -> str:
        """The name under which engines know it."""
        return f"piherder-lab-{self.name}:{SUITE}"

    def digest(self) -> str:
        """Changes with everything that changes the image."""
        told = (SUITE, *self.packages, self.finish, *map(str, sorted(self.files.items())))
        return hashlib.sha256("\n".join(told).encode()).hexdigest()[:12]

    def debootstrap(self, tree: str, mirror: str = "") -> list[str]:
        """Command that fills `tree`; with no mirror named, debootstrap's own default."""
        command = ["debootstrap", "--variant=minbase", f"--include={','.join(self.packages)}", SUITE, tree]
        return [*command, mirror] if mirror else command


HOST = Recipe(
    name="host",
    packages=(
        *("openssh-server", "sudo", "rsync", "iproute2", "ca-certificates", "procps", "iptables", "acl", "attr"),
        *("docker.io", "docker-cli", "docker-compose", "systemd", "systemd-sysv", "dbus"),
        *("make", "python3", "python3-venv"),
    ),
    files={"init.sh": INIT},
    # No key and no machine id may be shared by two hosts; no archive of apt need be kept.
    finish=f"""\
set -e
rm -f /etc/ssh/ssh_host_*_key* /var/lib/dbus/machine-id
: > /etc/machine-id
systemctl disable --quiet {" ".join(ASLEEP)}
systemctl mask --quiet {" ".join(MASKED)}
install -d -m 700 /root/.ssh
rm -rf /var/cache/apt/archives/*.deb
""",
)

# What the container image is built on, and the two servers beside it: all that could be fetched lies in there, and
# with no source left apt asks no mirror.
SLIM = Recipe(
    name="slim",
    packages=(
        *("python3", "python3-venv", "rsync", "openssh-client", "postgresql-client", "gpg", "gpg-agent", "tini"),
        "ca-certificates",
    ),
    finish="""\
set -e
export DEBIAN_FRONTEND=noninteractive
printf '#!/bin/sh\\nexit 101\\n' > /usr/sbin/policy-rc.d
chmod 755 /usr/sbin/policy-rc.d
mkdir -p /etc/postgresql-common
echo 'create_main_cluster = false' > /etc/postgresql-common/createcluster.conf
apt-get install -y -q --no-install-recommends -o Dpkg::Options::=--force-confold postgresql redis-server
rm -f /usr/lib/*/libLLVM* /usr/lib/postgresql/*/lib/llvmjit*  # half the size, and PostgreSQL does without
rm -rf /usr/sbin/policy-rc.d /var/cache/apt/archives/*.deb /var/lib/apt/lists/*
: > /etc/apt/sources.list
""",
)


def run_host(name: str, network: str, address: str) -> list[str]:
    """Arguments of `docker` that start a host with systemd as process 1.

    Not `--privileged`, which asks for every capability: a machine that lacks one refuses. The named volume keeps the
    host's own engine off overlayfs, which cannot be stacked.
    """
    kinds = ("seccomp", "apparmor", "systempaths")
    loose = [word for kind in kinds for word in ("--security-opt", f"{kind}=unconfined")]
    return [
        *("run", "-d", "--name", name, "--hostname", name, "--restart", "always", "--label", "piherder.lab=host"),
        *("--cap-add", "ALL", "--cap-drop", "SYS_RESOURCE", *loose, "--cgroupns=private"),
        *("-e", "container=docker", "--stop-signal", "SIGRTMIN+3", "--tmpfs", "/run", "--tmpfs", "/tmp:exec"),
        *("-v", f"{name}-docker:/var/lib/docker", "--network", network, "--ip", address, HOST.image, "/init.sh"),
    ]
