"""Both document stores, for every test that checks the contract."""

from collections.abc import Iterator

import pytest

from memeloom.catalog.documents import DocumentStore
from memeloom.catalog.stores import open_documents
from memeloom.configs.schema import S3, Store


@pytest.fixture(params=["sqlite", "mongodb"])
def store(request: pytest.FixtureRequest, store_config: Store) -> Store:
    if request.param == "sqlite":
        return store_config
    return store_config.model_copy(update={"documents": request.getfixturevalue("mongo_url")})


@pytest.fixture
def documents(store: Store) -> Iterator[DocumentStore]:
    opened = open_documents(store)
    yield opened
    opened.close()


def with_s3(store: Store, **changes: object) -> Store:
    """Return `store` with other S3 settings."""
    plain = {name: getattr(store.s3, name) for name in S3.model_fields} | changes
    return store.model_copy(update={"s3": S3.model_validate(plain)})
