"""Redis for tests."""

import socket

from tests.services.binaries import redis_binaries
from tests.services.process import Server

DATABASES = 256


class RedisServer(Server):
    """A running redis-server that keeps everything it acknowledged.

    options: other settings, such as ``requirepass="secret"``.
    """

    def __init__(self, **options: str) -> None:
        self._options = {"appendonly": "yes", "appendfsync": "always", "save": "", "loglevel": "warning"} | options
        super().__init__(redis_binaries())

    def command(self) -> list[str]:
        place = {"bind": "127.0.0.1", "port": str(self.port), "dir": str(self._folder)}
        settings = place | self._options
        return ["redis-server", *(word for name, value in settings.items() for word in (f"--{name}", value))]

    def url(self, login: str = "", database: int = 0) -> str:
        """Return its URL; `login` is "USER:PASSWORD@"."""
        return f"redis://{login}127.0.0.1:{self.port}/{database}"


def flush(port: int, database: int) -> None:
    """Empty one database."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(b"SELECT %d\r\nFLUSHDB\r\nQUIT\r\n" % database)
        answer = b"".join(iter(lambda: connection.recv(4096), b""))
    if answer != b"+OK\r\n" * 3:
        raise RuntimeError(f"redis on port {port} answered {answer!r}")
