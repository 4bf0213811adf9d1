"""The lab's network: a namespace of its own for the engine, so that no bridge or rule of it meets the machine's.

Two machines' worth of plumbing: `machine --veth-- namespace --bridge-- hosts`. The namespace takes its bridges and
rules with it when it goes; on the machine there are one veth, one route, three rules and perhaps `ip_forward`.
"""

from __future__ import annotations

import contextlib
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from tests.lab.base import LabError, cache, call, locked

FORWARD = Path("/proc/sys/net/ipv4/ip_forward")
HOSTS = ipaddress.ip_network("10.213.0.0/16")  # the labs' networks, a /24 each
LINKS = ipaddress.ip_network("10.214.0.0/16")  # their links to the machine, a /30 in a /24 each


@dataclass(frozen=True, slots=True)
class Network:
    """Names and addresses of lab number `number` (1 to 254) on this machine."""

    number: int

    @property
    def namespace(self) -> str:
        """Name of the network namespace, also what `ip netns` shows."""
        return f"piherder-lab-{self.number}"

    @property
    def veth(self) -> str:
        """The machine's end of the link (15 characters at most, if_nametoindex(3))."""
        return f"phlab{self.number}"

    @property
    def subnet(self) -> str:
        """The hosts' network."""
        return f"10.213.{self.number}.0/24"

    @property
    def machine(self) -> str:
        """The machine's address as the hosts see it."""
        return f"10.214.{self.number}.1"

    @property
    def engine(self) -> str:
        """The namespace's address: ports that the lab's engine publishes answer here."""
        return f"10.214.{self.number}.2"

    def address(self, index: int) -> str:
        """Fixed address of host number `index`; .1 is the bridge."""
        return f"10.213.{self.number}.{10 + index}"

    def rules(self) -> list[list[str]]:
        """The machine's iptables rules, each without `-I` or `-D`: hosts may reach out where the machine can."""
        mark = ["-m", "comment", "--comment", self.namespace]
        return [
            [
                "-t",
                "nat",
                "POSTROUTING",
                "-s",
                f"10.214.{self.number}.0/30",
                "!",
                "-o",
                self.veth,
                *mark,
                "-j",
                "MASQUERADE",
            ],
            ["-t", "filter", "FORWARD", "-i", self.veth, *mark, "-j", "ACCEPT"],
            ["-t", "filter", "FORWARD", "-o", self.veth, *mark, "-j", "ACCEPT"],
        ]

    def up(self) -> None:
        """Make namespace, link, route and rules. Raises LabError."""
        inside = ("ip", "-n", self.namespace)
        call("ip", "netns", "add", self.namespace)
        call("ip", "link", "add", self.veth, "type", "veth", "peer", "name", "uplink", "netns", self.namespace)
        call("ip", "address", "add", f"{self.machine}/30", "dev", self.veth)
        call("ip", "link", "set", self.veth, "up")
        call(*inside, "address", "add", f"{self.engine}/30", "dev", "uplink")
        call(*inside, "link", "set", "uplink", "up")
        call(*inside, "link", "set", "lo", "up")
        call(*inside, "route", "add", "default", "via", self.machine)
        call("ip", "route", "add", self.subnet, "via", self.engine)
        for table, rule in split(self.rules()):
            call("iptables", "-w", *table, "-I", *rule)

    def let_in(self) -> None:
        """Let the machine reach the hosts through the engine's own firewall."""
        call(*self.inside("iptables", "-w", "-I", "DOCKER-USER", "-i", "uplink", "-j", "ACCEPT"))

    def down(self) -> None:
        """Take everything away; silent about what is not there."""
        for table, rule in split(self.rules()):
            with contextlib.suppress(LabError):
                call("iptables", "-w", *table, "-D", *rule)
        for command in (["link", "delete", self.veth], ["netns", "delete", self.namespace]):
            with contextlib.suppress(LabError):
                call("ip", *command)

    def inside(self, *command: str) -> list[str]:
        """`command` run in the namespace; unlike `ip netns exec` it leaves /sys, and with it the cgroups, alone."""
        return ["nsenter", f"--net=/run/netns/{self.namespace}", "--", *command]


def split(rules: list[list[str]]) -> list[tuple[list[str], list[str]]]:
    """Each rule as its table's option and the rest, as `iptables` wants -I or -D between them."""
    return [(rule[:2], rule[2:]) for rule in rules]


def taken() -> set[int]:
    """Numbers of the labs whose namespace is there."""
    names = [line.split()[0] for line in call("ip", "netns", "list").splitlines() if line]
    return {int(n.removeprefix("piherder-lab-")) for n in names if n.startswith("piherder-lab-")}


def choose() -> Network:
    """A network that neither another lab nor a route of this machine uses, made. Raises LabError."""
    with locked("network"):
        routes = call("ip", "-4", "route", "show", "table", "all")
        used = taken()
        for number in range(1, 255):
            if number not in used and f"10.213.{number}." not in routes and f"10.214.{number}." not in routes:
                network = Network(number)
                forward(True)
                network.up()
                return network
    raise LabError("All 254 lab networks are taken; look at `ip netns list`.")


def release(network: Network) -> None:
    """Take a network down; the last one puts back what the machine forwarded before."""
    with locked("network"):
        network.down()
        if not taken():
            forward(False)


def forward(wanted: bool) -> None:
    """Turn forwarding on, noting that it was off; turn it off again only if it was us."""
    note = cache() / "ip_forward.was-off"
    if wanted and FORWARD.read_text().strip() == "0":
        note.touch()
        FORWARD.write_text("1")
    elif not wanted and note.exists():
        FORWARD.write_text("0")
        note.unlink()
