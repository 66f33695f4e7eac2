"""The owner of leases: a process whose name lets others on its machine check whether it is alive."""

import os
import socket
import uuid
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Owner:
    """An owner of leases. `serial` distinguishes owners in one process."""

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
        """Parse an owner's name."""
        machine, process, started, serial = name.rsplit("|", 3)
        return cls(machine, int(process), started, serial)

    @property
    def name(self) -> str:
        """All attributes in one string."""
        return f"{self.process_name}|{self.serial}"

    @property
    def process_name(self) -> str:
        """All attributes but the serial in one string, equal for the owners in one process."""
        return f"{self.machine}|{self.process}|{self.started}"

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
    """Return an id of this boot and process namespace, within which process ids are unique."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return socket.gethostname()


def _started(process: int) -> str | None:
    """Return a process's start time in clock ticks, because process ids are reused; None if it has ended."""
    try:
        facts = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return None
    # The name of the program, in brackets, may contain spaces and brackets. A zombie has ended.
    fields = facts.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else fields[19]
