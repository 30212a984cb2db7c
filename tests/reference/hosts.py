"""Hosts with addresses of their own on one machine: network namespaces joined by a bridge in another one.

Nothing leaves the namespaces: no host has a route to anywhere but the others.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
from pathlib import Path

_CLONE_NEWNET = 0x40000000


def why_not() -> str | None:
    """Why this machine cannot have such hosts, or None."""
    if shutil.which("ip") is None:
        return "no `ip` here: apt-get install iproute2"
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return "network namespaces need root here"
    name = f"lrgi-{os.getpid()}-try"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if made.returncode:
        return f"network namespaces are not allowed here: {made.stderr.strip()}"
    link = f"ip -n {name} link add try0 type bridge && ip -n {name} link add try1 type veth peer name try2"
    tried = subprocess.run(["sh", "-c", link], capture_output=True, text=True, check=False)
    subprocess.run(["ip", "netns", "del", name], check=False)
    return f"bridges or veth are not allowed here: {tried.stderr.strip()}" if tried.returncode else None


class Hosts:
    """`count` hosts 10.77.0.1, 10.77.0.2, ... A context: they are gone after it."""

    def __init__(self, count: int, tag: str = "") -> None:
        self.count, self._tag = count, f"lrgi-{os.getpid()}{tag}"
        self.switch = f"{self._tag}-switch"

    def name(self, host: int) -> str:
        return f"{self._tag}-{host}"

    def address(self, host: int) -> str:
        return f"10.77.0.{host + 1}"

    def __enter__(self) -> Hosts:
        _ip("netns", "add", self.switch)
        _ip("-n", self.switch, "link", "add", "bridge", "type", "bridge")
        _ip("-n", self.switch, "link", "set", "bridge", "up")
        for host in range(self.count):
            name, port = self.name(host), f"port{host}"
            _ip("netns", "add", name)
            _ip("-n", self.switch, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", name)
            _ip("-n", self.switch, "link", "set", port, "master", "bridge", "up")
            _ip("-n", name, "address", "add", f"{self.address(host)}/24", "dev", "eth0")
            _ip("-n", name, "link", "set", "eth0", "up")
            _ip("-n", name, "link", "set", "lo", "up")
        return self

    def __exit__(self, *_: object) -> None:
        for name in (*map(self.name, range(self.count)), self.switch):
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)

    def cut(self, host: int) -> None:
        """Pull the plug of its network: nobody is told, packets are lost."""
        _ip("-n", self.switch, "link", "set", f"port{host}", "down")

    def mend(self, host: int) -> None:
        _ip("-n", self.switch, "link", "set", f"port{host}", "up")

    def sent(self, host: int) -> int:
        """Bytes that left a host, headers and all."""
        shown = _ip("-n", self.name(host), "-s", "-j", "link", "show", "eth0")
        return int(json.loads(shown)[0]["stats64"]["tx"]["bytes"])

    def command(self, host: int, *words: str) -> list[str]:
        """A command line that runs on a host."""
        return ["ip", "netns", "exec", self.name(host), *words]


def move_to(name: str) -> None:
    """This thread, and those that it starts, live on a host from now on."""
    with Path(f"/var/run/netns/{name}").open("rb") as namespace:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(namespace.fileno(), _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"setns to {name}")


def _ip(*words: str) -> str:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"ip {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout
