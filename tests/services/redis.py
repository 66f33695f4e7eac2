"""Redis for tests, without persistence."""

import socket

from tests.services.binaries import redis_binaries
from tests.services.process import Process, answers, free_port, remove_folder, run_folder

DATABASES = 256


class Redis:
    """A running redis-server on 127.0.0.1 with 256 databases."""

    def __init__(self) -> None:
        root = redis_binaries()
        self._folder = run_folder("redis")
        self.port = free_port()
        command = ["redis-server", "--bind", "127.0.0.1", "--port", str(self.port), "--databases", str(DATABASES),
                   "--dir", str(self._folder), "--save", "", "--appendonly", "no"]  # fmt: skip
        try:
            self.process = Process(command, root, self._folder / "redis.out")
            self.process.wait_until(lambda: answers(self.port))
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End it."""
        if hasattr(self, "process"):
            self.process.kill()
        remove_folder(self._folder)


def flush(port: int, database: int) -> None:
    """Empty one database."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(b"SELECT %d\r\nFLUSHDB\r\nQUIT\r\n" % database)
        answer = b"".join(iter(lambda: connection.recv(4096), b""))
    if answer != b"+OK\r\n" * 3:
        raise RuntimeError(f"redis on port {port} answered {answer!r}")
