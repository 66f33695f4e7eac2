"""A crawl into MongoDB and S3, on real servers."""

from contextlib import closing

from memeloom.catalog.blobs import blob_key
from memeloom.catalog.stores import open_blobs, open_documents
from memeloom.configs.schema import Store
from memeloom.scrapers.crawl import crawl
from tests.scrapers.subreddits import Subreddits


def test_crawling_twice_into_mongodb_and_s3_stores_each_meme_once(
    subreddits: Subreddits, mongo_url: str, s3_store: Store
) -> None:
    urls = subreddits.pictures(30)
    subreddits.fill(*urls)
    store = s3_store.model_copy(update={"documents": mongo_url})
    config = subreddits.config(store=store)
    first, second = crawl(config), crawl(config)
    with closing(open_documents(store)) as documents, closing(open_blobs(store)) as blobs:
        memes = list(documents.scan())
        assert sorted(str(meme.image_url) for meme in memes) == sorted(urls)
        keys = sorted(meme.image.key for meme in memes if meme.image)
        assert keys == list(blobs.keys())
        assert all(blob_key(blobs.get(key)) == key for key in keys)
    assert len(keys) == 30
    assert (first.counts["new"], second.counts["unchanged"], second.counts["images"]) == (30, 30, 0)
