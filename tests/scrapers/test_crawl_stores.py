"""The same crawl into MongoDB and S3, on real servers."""

from collections.abc import Callable

from memeloom.catalog.blobs import blob_key
from memeloom.catalog.stores import open_blobs, open_documents
from memeloom.configs.progress import Silent
from memeloom.configs.schema import Config, Store
from memeloom.scrapers.crawl import crawl
from tests.services.website import Website


def test_a_crawl_into_mongodb_and_s3_keeps_everything_and_doubles_nothing(
    website: Website, crawl_config: Callable[..., Config], picture: Callable[[int], bytes],
    mongo_url: str, s3_store: Store,
) -> None:  # fmt: skip
    website.json("/api/v1/access_token", {"access_token": "t"})
    children = [
        {"kind": "t3", "data": {
            "id": f"p{number}", "permalink": "/p/", "url": f"{website.url}/{number}.jpg", "title": "t", "author": "a",
        }}
        for number in range(30)
    ]  # fmt: skip
    website.json("/r/memes/new?limit=100&raw_json=1", {"data": {"after": None, "children": children}})
    for number in range(30):
        website.image(f"/{number}.jpg", picture(number))
    reddit = {"site": website.url, "api": website.url, "client_id": "i", "client_secret": "s", "subreddits": ("memes",)}
    store = s3_store.model_copy(update={"documents": mongo_url})
    config = crawl_config(store=store, sources=("reddit",), reddit=reddit)
    first = crawl(config, Silent())
    again = crawl(config, Silent())
    documents, blobs = open_documents(store), open_blobs(store)
    memes = {meme.id: meme for meme in documents.scan()}
    assert set(memes) == {f"reddit:p{number}" for number in range(30)}
    assert list(blobs.keys()) == sorted(blob_key(picture(number)) for number in range(30))
    assert all(meme.image and blobs.has(meme.image.key) for meme in memes.values())
    assert (first.counts["new"], again.counts["unchanged"], again.counts["images"]) == (30, 30, 0)
    documents.close()
    blobs.close()
