"""A network of hosts: each in a subnet of its own, behind one router that can lose, delay and refuse what passes."""

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from itertools import product
from pathlib import Path

from tests.hosts.network import slow_link
from tests.hosts.network.namespace import Namespace

ROUTER = "router"
CLIENTS = "clients"
UPTIME_STEP = 86_400 * 7
"""Seconds between the starts of hosts."""


class HostNetwork:
    """Hosts by name, clients, and the router between them. Addresses are the same in every run: no run sees another."""

    def __init__(self, hosts: tuple[str, ...], folder: Path) -> None:
        """`folder`: where the files of names are."""
        self._folder = folder
        self._numbers = {name: number for number, name in enumerate((CLIENTS, *hosts))}
        self._spaces: dict[str, Namespace] = {}
        self._slowed: dict[str, subprocess.Popen[str]] = {}
        self.hosts = hosts

    def __getitem__(self, host: str) -> Namespace:
        return self._spaces[host]

    def address(self, host: str) -> str:
        return f"10.77.{self._numbers[host]}.2"

    def dead_address(self, host: str) -> str:
        """An address in the subnet of a host at which there is none."""
        return f"10.77.{self._numbers[host]}.99"

    def hosts_file(self, host: str) -> Path:
        return self._folder / f"{host}.hosts"

    def open(self) -> None:
        """Makes the namespaces and links them."""
        for number, name in enumerate((ROUTER, *self._numbers)):
            self.hosts_file(name).write_text("127.0.0.1 localhost\n")
            self._spaces[name] = Namespace(self.hosts_file(name), number * UPTIME_STEP)
        router = self[ROUTER]
        router.run("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv4.conf.all.rp_filter=0")
        for name, number in self._numbers.items():
            gateway, own = f"10.77.{number}.1", self[name]
            ends = ("link", "add", f"h{number}", "type", "veth", "peer", "name", "eth0", "netns", str(own.pid))
            router.run("ip", *ends)
            router.run("ip", "addr", "add", f"{gateway}/24", "dev", f"h{number}")
            router.run("ip", "link", "set", f"h{number}", "up")
            own.run("ip", "addr", "add", f"{self.address(name)}/24", "dev", "eth0")
            own.run("ip", "link", "set", "eth0", "up")
            own.run("ip", "route", "add", "default", "via", gateway)

    def close(self) -> None:
        self.quicken()
        for space in self._spaces.values():
            space.close()
        self._spaces.clear()

    def name(self, names: Mapping[str, str], host: str | None = None) -> None:
        """Tells a host, or all, the address of each name."""
        told = "".join(f"{address} {name}\n" for name, address in names.items())
        for each in [host] if host else self._spaces:
            # In place: another file would not be the one that is mounted.
            self.hosts_file(each).write_text(f"127.0.0.1 localhost\n{told}")

    def cut_to(self, host: str) -> None:
        """Delivers nothing to a host any more."""
        self._drop("-d", self.address(host))

    def cut_from(self, host: str) -> None:
        """Delivers nothing that a host sends."""
        self._drop("-s", self.address(host))

    def part(self, these: Iterable[str], those: Iterable[str]) -> None:
        """Delivers nothing between hosts of two groups. Clients, and others, still reach both."""
        for one, other in product(these, those):
            self._drop("-s", self.address(one), "-d", self.address(other))
            self._drop("-s", self.address(other), "-d", self.address(one))

    def lose(self, share: float) -> None:
        """Loses that share of all packets."""
        self._drop("-m", "statistic", "--mode", "random", "--probability", str(share))

    def heal(self) -> None:
        """Delivers everything again."""
        self[ROUTER].run("iptables", "-F", "FORWARD")

    def slow(self, host: str, seconds: float) -> None:
        """Delays everything that a host sends."""
        number = self._numbers[host]
        router = self[ROUTER]
        device = f"h{number}"
        mac = json.loads(router.run("ip", "-json", "link", "show", device))[0]["address"]
        router.run("ip", "link", "add", f"r{number}", "type", "veth", "peer", "name", f"d{number}")
        router.run("ip", "link", "set", f"r{number}", "address", mac)
        router.run("ip", "link", "set", f"d{number}", "up")
        router.run("ip", "link", "set", f"r{number}", "up")
        command = [*router.prefix, sys.executable, slow_link.__file__, device, f"d{number}", str(seconds)]
        self._slowed[host] = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._slowed[host].stdout.readline() == f"{slow_link.READY}\n"  # type: ignore[union-attr]
        self._move_address(number, device, f"r{number}")
        # The router itself would pass the same frames on at once.
        router.run("iptables", "-t", "raw", "-A", "PREROUTING", "-i", device, "-j", "DROP")

    def quicken(self) -> None:
        """Ends all delays."""
        for host, process in self._slowed.items():
            number = self._numbers[host]
            self[ROUTER].run("iptables", "-t", "raw", "-F")
            self._move_address(number, f"r{number}", f"h{number}")
            process.kill()
            process.communicate()
            self[ROUTER].run("ip", "link", "del", f"r{number}")
        self._slowed.clear()

    def _move_address(self, number: int, source: str, target: str) -> None:
        address = f"10.77.{number}.1/24"
        self[ROUTER].run("ip", "addr", "del", address, "dev", source)
        self[ROUTER].run("ip", "addr", "add", address, "dev", target)

    def _drop(self, *matches: str) -> None:
        self[ROUTER].run("iptables", "-A", "FORWARD", *matches, "-j", "DROP")
