"""Catalogs of older versions are upgraded when they are opened; killed at any moment, nothing is lost."""

import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pymongo
import pytest

from memeloom.catalog.documents import ALL, DocumentStore, StageCounts, StoredSketch, Upserted, Where
from memeloom.catalog.errors import StoreError, StoreFull
from memeloom.catalog.records import Image, Made, Meme, Template
from memeloom.catalog.sqlite_tables import UPGRADES, VERSION
from memeloom.catalog.stores import open_documents
from memeloom.configs.schema import Store

# As version 1 wrote it, to the letter.
VERSION_1 = """
CREATE TABLE memes (
  id TEXT NOT NULL UNIQUE, record TEXT NOT NULL,
  source TEXT NOT NULL, template TEXT, author TEXT, image_key TEXT, flags INTEGER NOT NULL);
CREATE INDEX memes_template ON memes (template, id, source, flags);
CREATE INDEX memes_author ON memes (author, id) WHERE author IS NOT NULL;
CREATE INDEX memes_image ON memes (image_key) WHERE image_key IS NOT NULL;
CREATE TABLE templates (id TEXT PRIMARY KEY, record TEXT NOT NULL, image_key TEXT) WITHOUT ROWID;
CREATE TABLE removed (id TEXT PRIMARY KEY, removed_at REAL NOT NULL) WITHOUT ROWID;
-- ready_at: when the work may be claimed: 0 if new, the end of its lease if held, NULL if it is over.
CREATE TABLE work (
  stage TEXT NOT NULL, meme_id TEXT NOT NULL, state INTEGER NOT NULL DEFAULT 0, ready_at REAL DEFAULT 0,
  token TEXT, attempt INTEGER NOT NULL DEFAULT 0, reason TEXT,
  PRIMARY KEY (stage, meme_id)) WITHOUT ROWID;
CREATE INDEX work_ready ON work (stage, ready_at) WHERE ready_at IS NOT NULL;
CREATE INDEX work_meme ON work (meme_id);
PRAGMA application_id = 1835363685;
PRAGMA user_version = 1;
"""
PICTURE = (
    '{"key":"' + "a" * 64 + '","width":2,"height":1,"format":"png","bytes":9,"phash64":"' + "0" * 16
    + '","phash256":"' + "0" * 64 + '"}'
)  # fmt: skip
MEME = '{"id":"imgflip:1","source":"imgflip","image":' + PICTURE + ',"boxes":["a",""],"schema_version":1}'
TEMPLATE = '{"id":"9","slug":"nine","name":"Nine","alt_names":[],"boxes":[],"image":' + PICTURE + ',"source":"imgflip"}'
IMAGE = Image.model_validate_json(PICTURE)

# Opens the catalog of argv[1], and kills itself before the statement number argv[2] that follows the write lock.
DIES = """
import os, signal, sqlite3, sys
from memeloom.catalog.sqlite import SqliteDocuments

class Dying(sqlite3.Connection):
    left = None
    def execute(self, statement, *values):
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.left is not None:
            self.left -= 1
        if statement.startswith("BEGIN IMMEDIATE"):
            self.left = int(sys.argv[2])
        return super().execute(statement, *values)

connect = sqlite3.connect
sqlite3.connect = lambda *names, **options: connect(*names, factory=Dying, **options)
SqliteDocuments(sys.argv[1], 10).close()
print("opened")
"""


@pytest.fixture
def old_file(tmp_path: Path) -> Path:
    """A catalog of version 1: a meme that was read, its work, a template, and a meme that a purge removed."""
    path = tmp_path / "catalog.db"
    with sqlite3.connect(path) as connection:
        connection.executescript("PRAGMA journal_mode = WAL;" + VERSION_1)
        connection.execute("INSERT INTO memes VALUES ('imgflip:1', ?, 'imgflip', NULL, NULL, ?, 3)", (MEME, IMAGE.key))
        connection.execute("INSERT INTO templates VALUES ('9', ?, ?)", (TEMPLATE, IMAGE.key))
        connection.execute("INSERT INTO removed VALUES ('imgflip:gone', 1.5)")
        connection.execute("INSERT INTO work VALUES ('ocr', 'imgflip:1', 2, NULL, NULL, 1, NULL)")
    connection.close()
    return path


def version_of(path: Path) -> int:
    connection = sqlite3.connect(path)
    try:
        version: int = connection.execute("PRAGMA user_version").fetchone()[0]
        return version
    finally:
        connection.close()


def has_all_and_more(documents: DocumentStore) -> None:
    """What the old catalog held is there, and what the new version knows can be added."""
    (meme,) = documents.scan()
    assert (meme.id, meme.image, meme.boxes, meme.clean) == ("imgflip:1", IMAGE, ("a", ""), None)
    (template,) = documents.templates()
    assert template == Template(id="9", slug="nine", name="Nine", image=IMAGE, source="imgflip")
    assert documents.counts().stages == {"ocr": StageCounts(done=1)}
    assert documents.enqueue("ocr", ALL) == 0
    assert documents.upsert([Meme(id="imgflip:gone", source="imgflip")]) == Upserted(removed=1)
    assert list(documents.image_keys()) == [IMAGE.key]
    clean = Made(image=IMAGE.model_copy(update={"key": "b" * 64}), method="inpaint", made_from=(IMAGE.key,))
    assert documents.upsert([meme.model_copy(update={"clean": clean})]) == Upserted(updated=1)
    documents.put_sketches([StoredSketch("", "imgflip:1", b"x"), StoredSketch("9", "", b"y")])
    assert documents.purge(Where(ids=("imgflip:1",))) == 1
    assert list(documents.noted_orphans()) == [[IMAGE.key, "b" * 64]]
    assert documents.orphans([IMAGE.key, "b" * 64]) == {"b" * 64}
    assert list(documents.sketches(unmatched=True)) == []
    assert list(documents.sketches()) == [StoredSketch("9", "", b"y")]


def test_a_catalog_of_version_1_keeps_all_it_holds(old_file: Path, store_config: Store) -> None:
    documents = open_documents(store_config)
    has_all_and_more(documents)
    documents.close()
    assert version_of(old_file) == VERSION == 3


def test_a_catalog_of_version_2_keeps_all_it_holds(old_file: Path, store_config: Store) -> None:
    connection = sqlite3.connect(old_file)
    connection.executescript(UPGRADES[1] + "PRAGMA user_version = 2;")
    connection.close()
    documents = open_documents(store_config)
    has_all_and_more(documents)
    documents.close()
    assert version_of(old_file) == VERSION


def test_an_upgraded_catalog_has_the_tables_of_a_new_one(old_file: Path, store_config: Store, tmp_path: Path) -> None:
    fresh = store_config.model_copy(update={"documents": f"sqlite:///{tmp_path}/fresh.db"})
    for store in (store_config, fresh):
        open_documents(store).close()
    tables = []
    for path in (old_file, tmp_path / "fresh.db"):
        connection = sqlite3.connect(path)
        tables.append(set(connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master")))
        connection.close()
    assert tables[0] == tables[1]


def test_an_upgrade_that_is_killed_leaves_the_old_catalog_or_the_new_one(old_file: Path, store_config: Store) -> None:
    survived = set()
    for statement in range(0, 50, 3):
        ran = subprocess.run(
            [sys.executable, "-c", DIES, str(old_file), str(statement)], cwd=Path(__file__).parents[2],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        survived.add(version_of(old_file))
        if ran.stdout == "opened\n":
            break
        assert ran.returncode == -9, ran.stderr
        connection = sqlite3.connect(old_file)
        names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        connection.close()
        assert ("sketches" in names) == ("made" in names) == ("loose" in names) == (version_of(old_file) == 3)
    assert statement > 5, "it was killed within the upgrade"
    assert survived == {1, 3}
    documents = open_documents(store_config)
    has_all_and_more(documents)
    documents.close()


def test_an_upgrade_that_finds_the_disk_full_leaves_the_old_catalog(
    old_file: Path, store_config: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full(sqlite3.Connection):
        def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
            if statement.startswith("BEGIN IMMEDIATE"):
                (pages,) = super().execute("PRAGMA page_count").fetchone()
                super().execute(f"PRAGMA max_page_count = {pages + 1}")
            return super().execute(statement, *values)

    connect = sqlite3.connect
    with monkeypatch.context() as patched:
        patched.setattr(sqlite3, "connect", lambda *names, **options: connect(*names, factory=Full, **options))
        with pytest.raises(StoreFull, match="the disk is full"):
            open_documents(store_config)
    assert version_of(old_file) == 1
    documents = open_documents(store_config)
    has_all_and_more(documents)
    documents.close()


def test_many_that_open_an_old_catalog_at_once_upgrade_it_once(old_file: Path, store_config: Store) -> None:
    with ThreadPoolExecutor(8) as threads:
        opened = list(threads.map(lambda _: open_documents(store_config), range(8)))
    assert {documents.count() for documents in opened} == {1}
    for documents in opened[1:]:
        documents.close()
    has_all_and_more(opened[0])
    opened[0].close()


def test_a_version_that_nobody_can_upgrade_is_left_alone(old_file: Path, store_config: Store) -> None:
    connection = sqlite3.connect(old_file)
    connection.execute("PRAGMA user_version = 0")
    connection.close()
    with pytest.raises(StoreError, match="a catalog of version 0"):
        open_documents(store_config)
    assert version_of(old_file) == 0


def test_a_catalog_in_mongodb_of_version_1_gets_the_indexes_that_it_lacks(mongo_url: str, store_config: Store) -> None:
    store = store_config.model_copy(update={"documents": mongo_url})
    meme = Meme.model_validate_json(MEME).model_dump(mode="json", exclude={"id"}, exclude_none=True)
    template = Template.model_validate_json(TEMPLATE)
    record = template.model_dump(mode="json", exclude_none=True, include={"slug", "name", "image", "source"})
    with pymongo.MongoClient[dict[str, object]](mongo_url, serverSelectionTimeoutMS=10_000) as client:
        old = client.get_default_database()
        old["meta"].insert_one({"_id": "catalog", "version": 1})
        old["memes"].insert_one({"_id": "imgflip:1", "revision": 4, "flags": 3, "record": meme})
        old["templates"].insert_one({"_id": "9", "revision": 1, "record": record})
        old["removed"].insert_one({"_id": "imgflip:gone"})
        job = {"stage": "ocr", "state": "done", "attempt": 1}
        old["work"].insert_one({"_id": {"stage": "ocr", "meme": "imgflip:1"}, **job})
        documents = open_documents(store)
        indexed = {tuple(index["key"]) for index in old["memes"].list_indexes()}
        assert {("record.clean.image.key",), ("record.clean.mask",)} <= indexed
        assert ("settled", "_id") in {tuple(index["key"]) for index in old["loose"].list_indexes()}
        assert ("_id.meme",) in {tuple(index["key"]) for index in old["sketches"].list_indexes()}
        assert old["meta"].find_one() == {"_id": "catalog", "version": 3}
    has_all_and_more(documents)
    documents.close()
    again = open_documents(store)
    assert list(again.sketches()) == [StoredSketch("9", "", b"y")]
    again.close()
