"""One SQLite file shared by threads and processes: connections, transactions, and errors in our words."""

import contextlib
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from memeloom.catalog.errors import StoreCorrupt, StoreDenied, StoreError, StoreFull, StoreUnavailable

# "meme" in ASCII: tells our catalogs from other SQLite files.
CATALOG = 0x6D656D65
_FULL = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE}
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL}
_DENIED = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH}
_CORRUPT = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}

# Connections that a fork copied from the parent. SQLite forbids to use or even close them here.
_inherited: list[sqlite3.Connection] = []


class _Connection:
    """Closes itself when its thread is gone, but never in a forked child."""

    def __init__(self, raw: sqlite3.Connection) -> None:
        self.raw = raw
        self.process = os.getpid()

    def close(self) -> None:
        if self.process == os.getpid():
            self.raw.close()
        else:
            _inherited.append(self.raw)

    def __del__(self) -> None:
        self.close()


class SqliteFile:
    """The file `path` with the tables of `schema`, created if it is new, upgraded if it is older.

    timeout_seconds: how long to wait for another connection's write lock.
    upgrades: for an older version n, the statements that make it version n + 1. A file gets the new version
        in one transaction, so whenever that is cut off it is the old one whole.
    kind, what: the application id that tells this kind of file from others, and its name.
    power_safe: whether a transaction that has ended also survives the machine's power loss; without
        it the last ones may be undone then, in their order. kill -9 undoes none either way.

    Raises:
        StoreError: it cannot be opened, is not a database, not of this kind, or of another version.
    """

    def __init__(
        self,
        path: str,
        timeout_seconds: float,
        schema: str,
        version: int,
        *,
        upgrades: Mapping[int, str] = MappingProxyType({}),
        kind: int = CATALOG,
        what: str = "catalog",
        power_safe: bool = True,
    ) -> None:
        self._path = Path(path).absolute()
        self._timeout = timeout_seconds
        self._schema = schema
        self._version = version
        self._upgrades = dict(upgrades)
        self._kind = kind
        self._what = what
        self._synchronous = "FULL" if power_safe else "NORMAL"
        self._reset()
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"{self._path}: cannot create its folder: {error.strerror}") from error
        self._prepare()

    def read(self, query: str, values: tuple[Any, ...] = ()) -> list[Any]:
        """All rows of `query`, as of one moment."""
        with self._mapped():
            return self._connection().execute(query, values).fetchall()

    @contextmanager
    def snapshot(self) -> Iterator[sqlite3.Connection]:
        """Several reads as of one moment."""
        with self._transaction("BEGIN") as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """A transaction that holds the write lock from its start; durable when it ends, undone on any error."""
        with self._transaction("BEGIN IMMEDIATE") as connection:
            yield connection

    def rewrite(self) -> bool:
        """Write the file anew without what was deleted. Returns False if another process's reading kept the log."""
        with self._mapped():
            connection = self._connection()
            connection.execute("VACUUM")
            # The log holds pages as they were.
            return not connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]

    def close(self) -> None:
        """Close this process's connections; a later call opens new ones."""
        for connection in list(self._open):
            connection.close()
        self._reset()

    def __getstate__(self) -> dict[str, Any]:
        """What another process needs to open the file for itself."""
        kept = ("_path", "_timeout", "_schema", "_version", "_upgrades", "_kind", "_what", "_synchronous")
        return {name: self.__dict__[name] for name in kept}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Come up without connections."""
        self.__dict__.update(state)
        self._reset()

    def _reset(self) -> None:
        self._local = threading.local()
        self._open: weakref.WeakSet[_Connection] = weakref.WeakSet()

    def _connection(self) -> sqlite3.Connection:
        mine: _Connection | None = getattr(self._local, "connection", None)
        if mine is None or mine.process != os.getpid():
            mine = self._local.connection = _Connection(self._connect())
            self._open.add(mine)
        return mine.raw

    def _connect(self) -> sqlite3.Connection:
        # Used by its own thread only, but closed by whoever calls close().
        raw = sqlite3.connect(self._path, timeout=self._timeout, isolation_level=None, check_same_thread=False)
        try:
            self._switch_to_wal(raw)
            raw.execute(f"PRAGMA synchronous = {self._synchronous}")
            raw.execute("PRAGMA cache_size = -16384")
            raw.execute("PRAGMA wal_autocheckpoint = 8000")
            raw.execute("PRAGMA journal_size_limit = 67108864")
        except BaseException:
            raw.close()
            raise
        return raw

    def _switch_to_wal(self, raw: sqlite3.Connection) -> None:
        # The first switch needs the file alone, and SQLite does not wait for that as it does for locks.
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                raw.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF not in _BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
            else:
                return

    def _prepare(self) -> None:
        with self._mapped():
            version, owner = self._signature()
            if version == self._version and owner == self._kind:
                return
            with self.write() as connection:
                version, owner = self._signature()
                if version == 0 and not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                    self._define(connection, self._schema)
                    return
                if owner == self._kind and version in self._upgrades:
                    for older in range(version, self._version):
                        self._define(connection, self._upgrades[older])
                    return
        if owner != self._kind:
            raise StoreError(f"{self._path}: a database, but not a memeloom {self._what}; name another file")
        if version != self._version:
            raise StoreError(
                f"{self._path}: a {self._what} of version {version}, this memeloom reads version {self._version};"
                " use the memeloom that wrote it or a newer one"
            )

    def _define(self, connection: sqlite3.Connection, statements: str) -> None:
        for statement in statements.split(";\n"):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {self._kind}")
        connection.execute(f"PRAGMA user_version = {self._version}")

    def _signature(self) -> tuple[int, int]:
        connection = self._connection()
        version, owner = (
            connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("user_version", "application_id")
        )
        return version, owner

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        with self._mapped():
            connection = self._connection()
            connection.execute(begin)
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                # After a full disk or an I/O error SQLite may have rolled back by itself.
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _mapped(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise self._error(error) from error

    def _error(self, error: sqlite3.Error) -> StoreError:
        extended = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
        code = extended & 0xFF
        if extended in _FULL or code in _FULL:
            return StoreFull(f"{self._path}: the disk is full; make room and run again")
        if code in _BUSY:
            return StoreUnavailable(f"{self._path}: another process held it for more than {self._timeout:g} s")
        if code in _DENIED:
            return StoreDenied(f"{self._path}: cannot be written ({error}); check its owner and rights")
        if code in _CORRUPT:
            return StoreCorrupt(f"{self._path}: not a sound SQLite database ({error}); restore it from a backup")
        if code == sqlite3.SQLITE_CANTOPEN:
            return StoreDenied(f"{self._path}: cannot be opened; check that it is a file, its owner and rights")
        return StoreError(f"{self._path}: {error}")
