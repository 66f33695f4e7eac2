"""One MongoDB database shared by threads and processes: clients, bulk writes, merging without locks, and errors."""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeAlias, TypeVar

import pymongo
from pymongo import InsertOne, MongoClient, ReadPreference, ReplaceOne, UpdateOne, WriteConcern
from pymongo.collection import Collection
from pymongo.errors import (
    BulkWriteError,
    ConfigurationError,
    ConnectionFailure,
    ExecutionTimeout,
    InvalidURI,
    OperationFailure,
    PyMongoError,
    WriteConcernError,
)
from pymongo.operations import IndexModel

from memeloom.catalog.errors import StoreDenied, StoreError, StoreFull, StoreMissing, StoreUnavailable
from memeloom.configs.errors import ConfigError
from memeloom.configs.masks import hosts_of
from memeloom.configs.retry import backoff_seconds

Document: TypeAlias = dict[str, Any]
R = TypeVar("R")

_DUPLICATE_KEY = 11000
_ATTEMPTS = 30
_INDEX_SECONDS = 3600.0


def _is_full(error: PyMongoError) -> bool:
    return _code(error) == 14031 or "No space left on device" in str(error)  # OutOfDiskSpace


def _is_denied(error: PyMongoError) -> bool:
    return _code(error) in {13, 18, 33, 8000}  # Unauthorized, AuthenticationFailed, KeyNotFound, Atlas's own


def _is_unavailable(error: PyMongoError) -> bool:
    return isinstance(error, (ConnectionFailure, ExecutionTimeout)) or error.timeout


def _is_unconfirmed(error: PyMongoError) -> bool:
    """Return True if the write may be lost, because not enough servers confirmed it."""
    is_bulk = isinstance(error, BulkWriteError) and bool(error.details.get("writeConcernErrors"))
    return is_bulk or isinstance(error, WriteConcernError)


# The first row that applies gives our error and its text.
_ERRORS: Final[tuple[tuple[Callable[[PyMongoError], bool], type[StoreError], str], ...]] = (
    (_is_full, StoreFull, "the server's disk is full; make room and run again"),
    (_is_denied, StoreDenied, "access denied; check the user, the password and their rights"),
    (_is_unavailable, StoreUnavailable, "not reached within {timeout:g} s; is the server running?"),
    (_is_unconfirmed, StoreUnavailable, "a write was not confirmed by enough servers; run again"),
    (lambda _: True, StoreError, "{error}"),
)


class MongoDatabase:
    """The database that `url` names, with acknowledged, journaled writes and a deadline on every call.

    Args:
        url: ``mongodb://HOST/DATABASE``.
        timeout_seconds: deadline of one call, its retries included.

    Raises:
        ConfigError: the URL cannot be used, or names no database.
    """

    def __init__(self, url: str, timeout_seconds: float) -> None:
        self._url, self._timeout = url, timeout_seconds
        try:
            self._connect()
            self.name = self._client.get_default_database().name
        except (InvalidURI, ConfigurationError, ValueError, TypeError):
            raise ConfigError(
                "store.documents: cannot use this MongoDB URL; write mongodb://HOST/DATABASE or"
                " mongodb://USER:PASSWORD@HOST/DATABASE (special characters percent-encoded, the database is needed)"
            ) from None
        self._place = f"MongoDB at {hosts_of(url)}, database {self.name}"

    def __getitem__(self, collection: str) -> Collection[Document]:
        """Return a collection, through this process's own client."""
        if self._process != os.getpid():
            self._connect()
        return self._client.get_database(
            self.name,
            read_preference=ReadPreference.PRIMARY,
            write_concern=WriteConcern("majority", j=True),
        )[collection]

    def close(self) -> None:
        """Close this process's connections."""
        if self._process == os.getpid():
            self._client.close()

    def prepare(
        self,
        version: int,
        indexes: Mapping[str, Sequence[IndexModel]],
        upgrade: Callable[[], None],
        *,
        read_only: bool,
    ) -> None:
        """Check the catalog's version; create missing indexes, unless `read_only`. An interrupted call can be repeated.

        upgrade: called before, to change the documents of an older version.

        Raises:
            StoreMissing: `read_only`, and there is no catalog.
            StoreError: the server fails, or holds a catalog of a newer version.
        """
        with self.mapped():
            found = self["meta"].find_one({"_id": "catalog"})
            if read_only and found is None:
                raise StoreMissing(f"{self._place}: no catalog")
            current = found["version"] if found else 0
            if current < version and not read_only:
                # A long deadline: a cancelled build of a large index would start again.
                with pymongo.timeout(_INDEX_SECONDS):
                    upgrade()
                    for collection, models in indexes.items():
                        self[collection].create_indexes(list(models))
                self["meta"].update_one({"_id": "catalog"}, {"$max": {"version": version}}, upsert=True)
        if current > version:
            raise StoreError(
                f"{self._place}: a catalog of version {current}, this memeloom reads version {version};"
                " use the memeloom that wrote it or a newer one"
            )

    def pages(
        self, collection: str, query: Document, *, after: Any = "", n: int = 1000, fields: Document | None = None
    ) -> Iterator[Document]:
        """Yield documents whose `_id` is greater than `after`, in order of `_id`, `n` in memory, one query a page."""
        while True:
            with self.mapped():
                later = {"$and": [query, {"_id": {"$gt": after}}]}
                page = list(self[collection].find(later, fields, batch_size=n).sort("_id", 1).limit(n))
            if not page:
                return
            yield from page
            after = page[-1]["_id"]

    def merge(
        self,
        collection: str,
        records: Sequence[R],
        *,
        key: Callable[[R], str],
        pack: Callable[[R], Document],
        unpack: Callable[[Document], R],
        combine: Callable[[R, R], R],
    ) -> tuple[int, int]:
        """Insert each record, or merge it into the one with its key. Returns (inserted, updated).

        A document is replaced only at the revision that was read, and merged again if another writer was faster.

        Raises:
            StoreUnavailable: other writers were faster every time.
        """
        inserted = updated = 0
        waiting = list(records)
        for attempt in range(1, _ATTEMPTS + 1):
            stored = {d["_id"]: d for d in self[collection].find({"_id": {"$in": list({key(r) for r in waiting})}})}
            current: dict[str, R] = {i: unpack(document) for i, document in stored.items()}
            before = dict(current)
            for record in waiting:
                known = current.get(key(record))
                current[key(record)] = record if known is None else combine(known, record)
            changed = [i for i, record in current.items() if i not in before or record is not before[i]]
            lost = self._replace(collection, [(i, stored.get(i), pack(current[i])) for i in changed])
            won = [i for i in changed if i not in lost]
            inserted += sum(i not in stored for i in won)
            updated += sum(i in stored for i in won)
            waiting = [record for record in waiting if key(record) in lost]
            if not waiting:
                return inserted, updated
            time.sleep(backoff_seconds(attempt, 0.005, 0.3))
        raise StoreUnavailable(f"{self._place}: other writers changed the same records {_ATTEMPTS} times; run again")

    def bulk_write(
        self, collection: str, requests: Sequence[InsertOne[Document] | ReplaceOne[Document] | UpdateOne]
    ) -> set[int]:
        """Write all requests, in any order. Returns the indexes of those that conflicted with a concurrent insert.

        Raises:
            PyMongoError: anything else failed, or enough servers did not confirm the writes.
        """
        if not requests:
            return set()
        try:
            self[collection].bulk_write(list(requests), ordered=False)
        except BulkWriteError as error:
            problems = error.details["writeErrors"]
            if error.details["writeConcernErrors"] or any(p["code"] != _DUPLICATE_KEY for p in problems):
                raise
            return {problem["index"] for problem in problems}
        return set()

    def _replace(self, collection: str, changes: Sequence[tuple[str, Document | None, Document]]) -> set[str]:
        requests: list[InsertOne[Document] | ReplaceOne[Document]] = []
        for document_id, old, new in changes:
            if old is None:
                requests.append(InsertOne({"_id": document_id, "revision": 1, **new}))
                continue
            # If that revision is gone, the upsert runs into the unique _id: a conflict that names its document.
            held = {"_id": document_id, "revision": old["revision"]}
            requests.append(ReplaceOne(held, {"_id": document_id, "revision": old["revision"] + 1, **new}, upsert=True))
        return {changes[index][0] for index in self.bulk_write(collection, requests)}

    @contextmanager
    def mapped(self) -> Iterator[None]:
        """Turn MongoDB's errors into ours."""
        try:
            yield
        except PyMongoError as error:
            kind, text = next((kind, text) for applies, kind, text in _ERRORS if applies(error))
            line = str(error).partition(", full error")[0].partition("\n")[0][:300]
            raise kind(f"{self._place}: {text.format(error=line, timeout=self._timeout)}") from error

    def _connect(self) -> None:
        milliseconds = max(1, int(self._timeout * 1000))
        self._process = os.getpid()
        # A fork must not touch its parent's client, only make its own.
        self._client: MongoClient[Document] = MongoClient(
            self._url,
            connect=False,
            appname="memeloom",
            timeoutMS=milliseconds,
            serverSelectionTimeoutMS=milliseconds,
            connectTimeoutMS=milliseconds,
            tz_aware=True,
        )


def _code(error: PyMongoError) -> int | None:
    if isinstance(error, BulkWriteError):
        problems = [*error.details.get("writeErrors", ()), *error.details.get("writeConcernErrors", ())]
        return next((p["code"] for p in problems if p["code"] != _DUPLICATE_KEY), None)
    return error.code if isinstance(error, OperationFailure) else None
