"""Catalogs for tests, in the working folder."""

from collections.abc import Iterable
from contextlib import closing

from memeloom.catalog.records import Meme, Template
from memeloom.catalog.stores import open_documents
from memeloom.configs.load import load_config


def fill(memes: Iterable[Meme], templates: Iterable[Template] = ()) -> None:
    """Store records in the catalog that commands find by default."""
    with closing(open_documents(load_config(environment={}).store)) as documents:
        documents.upsert_templates(templates)
        documents.upsert(memes)
