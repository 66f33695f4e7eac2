"""Who holds a lease: a process, named so that others on its machine can tell whether it still lives."""

import os
import socket
import uuid
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Owner:
    """One holder of leases. Its name says where it runs; `serial` tells two holders in one process apart."""

    machine: str
    process: int
    started: str
    serial: str

    @classmethod
    def here(cls) -> "Owner":
        """A new holder in this process."""
        process = os.getpid()
        return cls(_machine(), process, _started(process) or "", uuid.uuid4().hex[:8])

    @classmethod
    def named(cls, name: str) -> "Owner":
        """The holder that `name` was made of."""
        machine, process, started, serial = name.rsplit("|", 3)
        return cls(machine, int(process), started, serial)

    @property
    def name(self) -> str:
        """All of it in one string."""
        return f"{self.machine}|{self.process}|{self.started}|{self.serial}"

    def is_gone(self) -> bool:
        """Whether its process is known to be dead; False for processes of other machines, which only silence tells."""
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
    """This boot of this machine, and the process namespace: in another container numbers mean other processes."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return socket.gethostname()


def _started(process: int) -> str | None:
    """When a process was started, in the system's ticks: tells it from a later one of the same number."""
    try:
        facts = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return None
    # The name of the program, in brackets, may itself hold spaces and brackets. A zombie is gone.
    fields = facts.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else fields[19]
