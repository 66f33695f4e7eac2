"""Workers that are processes of this machine; each has a pipe of its own."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Collection
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any

from memeloom.engine.crew import Died, Guard, Hand
from memeloom.engine.duty import Duty
from memeloom.engine.outcome import Outcome

_ENDING_SECONDS = 5.0


class LocalCrew:
    """Up to `size` processes that work as `engine.duty` says. They end with this process, however it ends."""

    def __init__(self, packed: bytes, size: int, guard: Guard | None) -> None:
        self.size = size
        self._duty = Duty(packed, guard)
        self._context = multiprocessing.get_context("spawn")
        self._processes: list[SpawnProcess] = []

    def hire(self) -> Hand:
        """Start a process."""
        pipe, far_end = self._context.Pipe()
        process = self._context.Process(target=_work, args=(far_end, self._duty), daemon=True)
        process.start()
        far_end.close()
        # Those that were replaced are not needed until the end.
        self._processes = [other for other in self._processes if other.is_alive()] + [process]
        return _LocalHand(process, pipe)

    def wait(self, hands: Collection[Hand], seconds: float | None) -> list[Hand]:
        """Those with something in their pipe, or at their end."""
        ours = [hand for hand in hands if isinstance(hand, _LocalHand)]
        waited = {hand.pipe: hand for hand in ours} | {hand.process.sentinel: hand for hand in ours}
        return list(dict.fromkeys(waited[item] for item in wait(list(waited), seconds)))  # type: ignore[index]

    def close(self) -> None:
        """Wait for those that were told to leave; end who does not."""
        for process in self._processes:
            process.join(_ENDING_SECONDS)
            if process.is_alive():
                process.kill()
                process.join(_ENDING_SECONDS)
            process.close()


class _LocalHand:
    """A process, and our end of its pipe."""

    def __init__(self, process: SpawnProcess, pipe: Connection) -> None:
        self.process = process
        self.pipe = pipe

    def give(self, partition: object) -> None:
        """Send `partition`."""
        try:
            self.pipe.send(partition)
        except (BrokenPipeError, ConnectionResetError):
            return  # it died; the next `hear` says so

    def hear(self) -> Outcome[Any]:
        """Receive what it said. Raises Died."""
        try:
            if self.pipe.poll():
                outcome: Outcome[Any] = self.pipe.recv()
                return outcome
        except (EOFError, ConnectionResetError):
            pass
        self.process.join(_ENDING_SECONDS)
        code = self.process.exitcode
        if code is not None and code < 0:
            raise Died(f"was killed by {signal.Signals(-code).name}")
        raise Died(f"ended with exit code {code}")

    def leave(self) -> None:
        """Close the pipe: it ends when it has nothing more to do."""
        self.pipe.close()

    def end(self) -> None:
        """Kill it."""
        self.process.kill()
        self.process.join(_ENDING_SECONDS)
        self.pipe.close()


def _work(pipe: Connection, duty: Duty) -> None:
    # Ctrl-C reaches every process of a terminal; the parent ends its workers itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        pipe.send_bytes(duty.open())
        while True:
            pipe.send_bytes(duty.work(pipe.recv()))
    except (EOFError, BrokenPipeError):
        return  # nothing more to do, or nobody to do it for


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
