"""Crawls of the miniature internet: everything it serves is in the catalog exactly once, and right."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memeloom.catalog.stores import open_blobs, open_documents
from memeloom.configs.load import load_config
from memeloom.configs.progress import Silent
from memeloom.configs.runs import Summary
from memeloom.configs.schema import Config, Store
from memeloom.demo.faults import Rule
from memeloom.demo.internet import Internet
from memeloom.scrapers.crawl import crawl
from memeloom.scrapers.errors import CrawlFailed


@pytest.fixture(scope="module")
def internet() -> Iterator[Internet]:
    with Internet(memes=72, posts=24, pictures=60) as running:
        yield running


@pytest.fixture
def settings(internet: Internet, tmp_path: Path, store_config: Store) -> Iterator[Callable[..., Config]]:
    """Settings against the miniature internet; arguments are further overrides. Its faults end with the test."""

    def build(*overrides: str) -> Config:
        quick = ("crawl.concurrency_per_host=8", "crawl.max_minutes=2", f"runs={tmp_path}/runs")
        config = load_config(overrides=[*internet.settings, *quick, *overrides], environment={})
        return config.model_copy(update={"store": store_config})

    yield build
    internet.set_faults({})


def assert_as_served(config: Config, internet: Internet, source: str) -> None:
    """Every served meme of `source` is in the catalog exactly once, with what the site states and its bytes."""
    served = {meme.id: meme for meme in internet.served(hashes=True) if meme.source == source}
    documents, blobs = open_documents(config.store), open_blobs(config.store)
    stored = {meme.id: meme for meme in documents.scan() if meme.source == source}
    assert stored.keys() == served.keys()
    for key, meme in stored.items():
        truth = served[key]
        assert meme.image is not None
        assert (meme.image.key, meme.page_url, meme.image_url) == (truth.sha256, truth.page_url, truth.image_url)
        assert blobs.has(meme.image.key)
        if source == "imgflip":
            assert (meme.boxes, meme.title, meme.score, meme.views) == (
                truth.boxes, truth.title, truth.score, truth.views,
            )  # fmt: skip
            assert meme.template is not None
            assert (meme.template.id, meme.template.slug) == (truth.template_id, truth.template_slug)
        if source == "reddit":
            assert (meme.title, meme.score, meme.over_18) == (truth.title, truth.score, truth.over_18)


def test_imgflip_is_gathered_whole_and_a_second_crawl_changes_nothing(
    settings: Callable[..., Config], internet: Internet
) -> None:
    config = settings()
    first = crawl(config, Silent())
    assert_as_served(config, internet, "imgflip")
    before = list(open_documents(config.store).scan())
    templates = list(open_documents(config.store).templates())
    assert len(templates) == 12
    assert all(template.image and template.box_count for template in templates)
    again = crawl(config, Silent())
    assert (again.counts["new"], again.counts["updated"], again.counts["images known"]) == (0, 0, 72)
    assert list(open_documents(config.store).scan()) == before
    assert first.counts["new"] == first.counts["memes"] == 72


def test_reddit_is_gathered_whole_and_a_refused_token_is_renewed_once(
    settings: Callable[..., Config], internet: Internet
) -> None:
    internet.set_faults([Rule("expired_token", times=1)])
    config = settings("crawl.sources=[reddit]")
    summary = crawl(config, Silent())
    assert_as_served(config, internet, "reddit")
    assert internet.log()["faults"]["expired_token"] >= 1
    assert summary.reasons


def test_a_bad_picture_is_counted_and_costs_the_meme_its_picture_only(
    settings: Callable[..., Config], internet: Internet
) -> None:
    reasons = {
        "cut_file": "image: truncated",
        "lying_type": "image: not an image",
        "bomb": "image: too many pixels",
        "redirect_private": "image: address refused",
    }
    internet.set_faults([Rule(name, share=0.2, times=None, path="imgflip_images/6") for name in reasons])
    before = internet.log()["faults"]
    config = settings()
    summary = crawl(config, Silent())
    documents = open_documents(config.store)
    memes = list(documents.scan())
    assert len(memes) == len([meme for meme in memes if meme.boxes]) == 72
    hits = {name: n - before.get(name, 0) for name, n in internet.log()["faults"].items() if name in reasons}
    assert {reason: summary.reasons[reason] for reason in reasons.values()} == {
        reason: hits[name] for name, reason in reasons.items()
    }
    assert sum(hits.values()) == len([meme for meme in memes if meme.image is None])
    images = [meme.image for meme in memes] + [template.image for template in documents.templates()]
    assert {image.key for image in images if image} == set(open_blobs(config.store).keys())


def test_endless_pagination_ends(settings: Callable[..., Config], internet: Internet) -> None:
    internet.set_faults([Rule("endless_paging", times=None)])
    config = settings("crawl.imgflip.templates=100", "crawl.imgflip.pages_per_template=1000")
    summary: Summary = crawl(config, Silent())
    assert summary.counts["memes"] == 72
    assert_as_served(config, internet, "imgflip")


def test_a_changed_layout_is_an_error_that_names_site_and_selector(
    settings: Callable[..., Config], internet: Internet
) -> None:
    internet.set_faults([Rule("changed_layout", times=None, path="imgflip/meme/")])
    with pytest.raises(CrawlFailed, match=r"imgflip: '\.base-unit"):
        crawl(settings(), Silent())


def test_a_store_that_fails_ends_the_crawl_with_its_error(settings: Callable[..., Config], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    config = settings("crawl.sources=[imgflip,reddit]")
    store = config.store.model_copy(update={"blobs": str(tmp_path / "file" / "blobs")})
    config = config.model_copy(update={"store": store})
    with pytest.raises(CrawlFailed, match="Not a directory"):
        crawl(config, Silent())
