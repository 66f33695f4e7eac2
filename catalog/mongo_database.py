"""One MongoDB database shared by threads and processes: clients, errors in our words, and merging without locks."""

import os
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias, TypeVar

import pymongo
from pymongo import InsertOne, MongoClient, ReadPreference, ReplaceOne, WriteConcern
from pymongo.collection import Collection
from pymongo.errors import (
    BulkWriteError,
    ConfigurationError,
    ConnectionFailure,
    ExecutionTimeout,
    InvalidURI,
    OperationFailure,
    PyMongoError,
)
from pymongo.operations import IndexModel

from memeloom.catalog.errors import StoreDenied, StoreError, StoreFull, StoreUnavailable
from memeloom.configs.errors import ConfigError

Document: TypeAlias = dict[str, Any]
R = TypeVar("R")

DUPLICATE_KEY = 11000
_DENIED = {13, 18, 33, 8000}  # Unauthorized, AuthenticationFailed, KeyNotFound, Atlas's own
_FULL = {14031}  # OutOfDiskSpace
_TRIES = 30
_INDEX_SECONDS = 3600.0


class MongoDatabase:
    """The database that `url` names, with acknowledged, journaled writes and a deadline on every call.

    timeout_seconds: deadline of one call, its retries included.

    Raises:
        ConfigError: the URL cannot be used, or names no database.
    """

    def __init__(self, url: str, timeout_seconds: float) -> None:
        self._url, self._timeout = url, timeout_seconds
        # Neither the user nor the password ever gets into a message.
        host = url.partition("://")[2].rpartition("@")[2].partition("/")[0]
        with self._usable_url():
            self._connect()
            self.name = self._client.get_default_database().name
        self._place = f"MongoDB at {host}, database {self.name}"

    def __getitem__(self, collection: str) -> Collection[Document]:
        """A collection, through this process's own client."""
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

    def prepare(self, version: int, indexes: Mapping[str, Sequence[IndexModel]]) -> None:
        """Create the indexes of a new or older database, or check the version of one that is there.

        An older version needs nothing but indexes: its documents read as they are. Killed before it is done,
        the next one does it again.

        Raises:
            StoreError: the server fails, or holds a catalog of a newer version.
        """
        with self.mapped():
            found = self["meta"].find_one({"_id": "catalog"}) or {"version": 0}
            if found["version"] < version:
                # Over millions of documents an index takes its time; cut off, the server would begin again.
                with pymongo.timeout(_INDEX_SECONDS):
                    for collection, models in indexes.items():
                        self[collection].create_indexes(list(models))
                self["meta"].update_one({"_id": "catalog"}, {"$max": {"version": version}}, upsert=True)
                return
        if found["version"] != version:
            raise StoreError(
                f"{self._place}: a catalog of version {found['version']}, this memeloom reads version {version};"
                " use the memeloom that wrote it or a newer one"
            )

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
        """Insert each record, or lay it over the one with its key. Returns (inserted, updated).

        A document is replaced only at the revision that was read. Where another writer was faster, the record is
        laid over what that writer left, so both keep their facts.

        Raises:
            StoreUnavailable: other writers were faster every time.
        """
        inserted = updated = 0
        waiting = list(records)
        for attempt in range(_TRIES):
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
            time.sleep(random.uniform(0, 0.005 * 2 ** min(attempt, 6)))
        raise StoreUnavailable(f"{self._place}: other writers changed the same records {_TRIES} times; run again")

    def _replace(self, collection: str, changes: Sequence[tuple[str, Document | None, Document]]) -> set[str]:
        """Write documents unless their revision moved on. Returns the ids of those that did."""
        if not changes:
            return set()
        requests: list[InsertOne[Document] | ReplaceOne[Document]] = []
        for document_id, old, new in changes:
            if old is None:
                requests.append(InsertOne({"_id": document_id, "revision": 1, **new}))
                continue
            # If that revision is gone, the upsert runs into the unique _id: a conflict that names its document.
            held = {"_id": document_id, "revision": old["revision"]}
            moved_on = {"_id": document_id, "revision": old["revision"] + 1, **new}
            requests.append(ReplaceOne(held, moved_on, upsert=True))
        try:
            self[collection].bulk_write(requests, ordered=False)
        except BulkWriteError as error:
            problems = error.details["writeErrors"]
            if error.details["writeConcernErrors"] or any(p["code"] != DUPLICATE_KEY for p in problems):
                raise
            return {changes[problem["index"]][0] for problem in problems}
        return set()

    @contextmanager
    def mapped(self) -> Iterator[None]:
        """Turn MongoDB's errors into ours."""
        try:
            yield
        except PyMongoError as error:
            raise self._error(error) from error

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

    @contextmanager
    def _usable_url(self) -> Iterator[None]:
        try:
            yield
        except (InvalidURI, ConfigurationError, ValueError, TypeError):
            raise ConfigError(
                "store.documents: cannot use this MongoDB URL; write mongodb://HOST/DATABASE or"
                " mongodb://USER:PASSWORD@HOST/DATABASE (special characters percent-encoded, the database is needed)"
            ) from None

    def _error(self, error: PyMongoError) -> StoreError:
        code, text = _code(error), _first_line(error)
        if code in _FULL or "No space left on device" in text:
            return StoreFull(f"{self._place}: the server's disk is full; make room and run again")
        if code in _DENIED:
            return StoreDenied(f"{self._place}: access denied; check the user, the password and their rights")
        if isinstance(error, (ConnectionFailure, ExecutionTimeout)) or error.timeout:
            return StoreUnavailable(f"{self._place}: not reached within {self._timeout:g} s; is the server running?")
        return StoreError(f"{self._place}: {text}")


def _code(error: PyMongoError) -> int | None:
    if isinstance(error, BulkWriteError):
        problems = [*error.details.get("writeErrors", ()), *error.details.get("writeConcernErrors", ())]
        return next((p["code"] for p in problems if p["code"] != DUPLICATE_KEY), None)
    return error.code if isinstance(error, OperationFailure) else None


def _first_line(error: PyMongoError) -> str:
    return str(error).partition(", full error")[0].partition("\n")[0][:300]
