"""The owner of a lease: a process, named so that others on its machine can tell whether it is still alive."""

import os
import socket
import uuid
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Owner:
    """One owner of leases. `serial` distinguishes owners in one process."""

    machine: str
    process: int
    started: str
    serial: str

    @classmethod
    def here(cls) -> "Owner":
        """Return a new owner in this process."""
        process = os.getpid()
        return cls(_machine(), process, _started(process) or "", uuid.uuid4().hex[:8])

    @classmethod
    def named(cls, name: str) -> "Owner":
        """Return the owner of that name."""
        machine, process, started, serial = name.rsplit("|", 3)
        return cls(machine, int(process), started, serial)

    @property
    def name(self) -> str:
        """All attributes in one string."""
        return f"{self.machine}|{self.process}|{self.started}|{self.serial}"

    def is_gone(self) -> bool:
        """Return whether its process has ended; False for other machines, whose leases expire instead."""
        if self.machine != _machine():
            return False
        if self.started:
            return _started(self.process) != self.started
        try:
            os.kill(self.process, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        return False


def _machine() -> str:
    """Return an id of this boot and this process namespace, within which process ids are unique."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return socket.gethostname()


def _started(process: int) -> str | None:
    """Return when a process started, in clock ticks, because ids are reused; None if it has ended."""
    try:
        facts = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return None
    # The name of the program, in brackets, may contain spaces and brackets. A zombie has ended.
    fields = facts.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else fields[19]
