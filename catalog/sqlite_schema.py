"""The tables of a catalog in SQLite, and how older catalogs get them."""

from typing import Final

# Version 2: what memes are recognised by, and the blobs that they refer to beside their picture.
_SINCE_2 = """
-- meme: '' for the template's own; template: '' for a stranger's.
CREATE TABLE sketches (template TEXT NOT NULL, meme TEXT NOT NULL, data BLOB NOT NULL, UNIQUE (template, meme));
CREATE INDEX sketches_meme ON sketches (meme) WHERE meme != '';
-- Blobs that were made; owner: 0 for a meme, 1 for a template.
CREATE TABLE made (owner INTEGER NOT NULL, id TEXT NOT NULL, key TEXT NOT NULL, PRIMARY KEY (owner, id, key))
  WITHOUT ROWID;
CREATE INDEX made_key ON made (key);
"""

# Version 3: blobs that a purge may have left behind; settled: looked at, and deleted.
_SINCE_3 = """
CREATE TABLE loose (key TEXT PRIMARY KEY, settled INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX loose_open ON loose (key) WHERE settled = 0;
"""

SCHEMA: Final = f"""
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
{_SINCE_2}{_SINCE_3}"""
VERSION: Final = 3
# Version n: the statements that make it version n + 1.
UPGRADES: Final = {1: _SINCE_2, 2: _SINCE_3}
