"""Crawls of a miniature internet on its bad days: what passes costs nothing, what stays is counted and harms nobody."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memeloom.catalog.blobs import blob_key
from memeloom.catalog.records import Meme
from memeloom.catalog.stores import open_blobs, open_documents
from memeloom.configs.load import load_config
from memeloom.configs.progress import Silent
from memeloom.configs.schema import Config, Store
from memeloom.demo.faults import Rule
from memeloom.demo.internet import Internet
from memeloom.demo.truth import ServedMeme
from memeloom.scrapers.crawl import crawl
from memeloom.scrapers.frontier.contract import frontier_of

# Imgflip, Reddit and their picture hosts, but no robots.txt: a site that fails there may be read by nobody.
PLACES = r"(imgflip|imgflip_api|imgflip_images|reddit_api|reddit_images)/(?!robots)"
PASSING = (
    Rule("rate_limit", share=0.05, path=PLACES, settings={"seconds": 1}),
    Rule("rate_limit", share=0.05, path=PLACES, settings={"seconds": 1, "date": True}),
    Rule("server_error", share=0.2, path=PLACES, settings={"status": 500}),
    Rule("server_errors", times=6, after=20, path=PLACES),
    Rule("reset", share=0.2, path=PLACES),
    Rule("reset", share=0.2, path=PLACES, settings={"part": 0.5}),
    Rule("truncated", share=0.2, path=PLACES),
    Rule("stall", share=0.03, path=PLACES, settings={"sends": "nothing"}),
    Rule("stall", share=0.03, path=PLACES, settings={"sends": "part"}),
    Rule("slow_bytes", share=0.05, path=PLACES),
    Rule("moving_listing", times=2),
    Rule("expired_token", per="token", after=3, times=None),
    Rule("lying_type", share=0.1, settings={"type": "image/gif"}),
)
LASTING = {
    "huge_headers": "too many bytes",
    "endless_body": "too many bytes",
    "gzip_bomb": "too many bytes",
    "redirect_loop": "too many redirects",
    "stall": "timed out",
    "truncated": "cut off",
}


@pytest.fixture(scope="module")
def internet() -> Iterator[Internet]:
    with Internet(memes=96, posts=26, pictures=20, subreddits=("memes",), variety=True, quick=True) as running:
        yield running


@pytest.fixture
def settings(internet: Internet, tmp_path: Path, store_config: Store) -> Iterator[Callable[..., Config]]:
    """Settings against the miniature internet, quick to give up; its faults end with the test."""

    def build(*overrides: str, store: Store = store_config) -> Config:
        quick = ("crawl.concurrency_per_host=8", "crawl.max_minutes=3", "crawl.timeout_seconds=2", "crawl.retries=8")
        own = ("crawl.imgflip.meme_pages=all", "crawl.breaker_seconds=0.5", f"runs={tmp_path}/runs")
        config = load_config(overrides=[*internet.settings, *quick, *own, *overrides], environment={})
        return config.model_copy(update={"store": store})

    yield build
    internet.set_faults({})


def assert_as_served(config: Config, internet: Internet, *sources: str) -> None:
    """Each served meme of `sources`, and each further picture of it, is there once with its bytes, and nothing else."""
    served = {meme.id: meme for meme in internet.served(hashes=True) if meme.source in sources}
    documents, blobs = open_documents(config.store), open_blobs(config.store)
    stored = {meme.id: meme for meme in documents.scan()}
    further = {f"{meme.id}-{n}": key for meme in served.values() for n, key in enumerate(meme.more_sha256, start=2)}
    assert stored.keys() == served.keys() | further.keys()
    for name, meme in stored.items():
        assert meme.image is not None, name
        assert blob_key(blobs.get(meme.image.key)) == meme.image.key
        if name in further:
            assert meme.image.key == further[name]
        else:
            assert_right(meme, served[name])
    documents.close()
    blobs.close()
    for source in sources:
        frontier = frontier_of(config, source)
        tallies = frontier.tallies()
        frontier.close()
        assert (tallies.pending, tallies.leased, tallies.dead) == (0, 0, 0)


def assert_right(meme: Meme, truth: ServedMeme) -> None:
    assert meme.image is not None
    if truth.kind == "animated":
        assert meme.image.frame_of == "gif"
    else:
        assert (meme.image.key, meme.image.frame_of) == (truth.sha256, None)
    if meme.source == "imgflip":
        assert (meme.boxes, meme.title, meme.over_18) == (truth.boxes, truth.title, truth.over_18)
        assert meme.template is not None
        assert (meme.template.id, meme.template.slug) == (truth.template_id, truth.template_slug)


def test_a_bad_day_costs_nothing_on_sqlite_and_a_folder(settings: Callable[..., Config], internet: Internet) -> None:
    config = settings("crawl.sources=[imgflip,reddit]")
    internet.set_faults(PASSING)
    summary = crawl(config, Silent())
    internet.set_faults({})
    assert_as_served(config, internet, "imgflip", "reddit")
    assert summary.counts["retries"] > 20


@pytest.mark.soak
def test_a_bad_day_costs_nothing_on_redis_mongodb_s3_and_in_chromium(
    settings: Callable[..., Config], internet: Internet, redis_url: str, mongo_url: str, s3_store: Store
) -> None:
    store = s3_store.model_copy(update={"documents": mongo_url})
    config = settings("crawl.sources=[imgflip,reddit,images]", f"crawl.frontier={redis_url}", store=store)
    internet.set_faults((*PASSING, Rule("server_error", path="bing/images/search")))
    crawl(config, Silent())
    internet.set_faults({})
    assert_as_served(config, internet, "imgflip", "reddit", "images")


@pytest.mark.parametrize("faults", [("stall",), tuple(sorted(LASTING.keys() - {"stall"}))], ids=["silence", "others"])
def test_a_picture_that_never_comes_is_counted_and_costs_the_meme_its_picture_only(
    settings: Callable[..., Config], internet: Internet, faults: tuple[str, ...]
) -> None:
    # Only silence is to run into the deadline, on however slow a machine.
    deadline = f"crawl.timeout_seconds={1 if 'stall' in faults else 30}"
    config = settings("crawl.imgflip.meme_pages=needed", "crawl.retries=1", "crawl.max_image_bytes=3000000", deadline)
    before = internet.log()["faults"]
    share = 0.1 if "stall" in faults else 0.2
    internet.set_faults([Rule(fault, share=share, times=None, path="imgflip_images/(?!robots)") for fault in faults])
    summary = crawl(config, Silent())
    assert all(internet.log()["faults"].get(fault, 0) > before.get(fault, 0) for fault in faults)
    documents = open_documents(config.store)
    without = [meme for meme in documents.scan() if meme.image is None]
    reasons = {name: n for name, n in summary.reasons.items() if "image: " in name}
    assert {name.partition("image: ")[2] for name in reasons} == {LASTING[fault] for fault in faults}
    assert len(without) == sum(n for name, n in reasons.items() if name.startswith("image: ")) > 0
    served = {meme.id for meme in internet.served() if meme.source == "imgflip"}
    assert served <= {meme.id for meme in documents.scan()}


@pytest.mark.parametrize("form", ["name", "decimal", "mapped"])
def test_no_redirect_leads_inside_however_its_address_is_written(
    settings: Callable[..., Config], internet: Internet, form: str
) -> None:
    # Animated memes too, some of which may be among the first ten.
    faults = [Rule("redirect_private", times=None, path="imgflip_images/(?!robots)", settings={"form": form})]
    internet.set_faults(faults)
    config = settings("crawl.max_memes=10")
    summary = crawl(config, Silent())
    assert summary.reasons.get("image: address refused", 0) + summary.reasons.get("image: unknown host", 0) > 0
    assert "inside" not in internet.log()["requests"]
    assert all(meme.image is None for meme in open_documents(config.store).scan())
