"""Crawls after a crawl: what is new is found, what was set aside is tried again, what was left is gone on with."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memeloom.catalog.records import Meme
from memeloom.catalog.stores import open_documents
from memeloom.configs.load import load_config
from memeloom.configs.progress import Silent
from memeloom.configs.schema import Config, Store
from memeloom.demo.faults import Rule
from memeloom.demo.internet import Internet
from memeloom.scrapers.crawl import crawl, failed_requests


@pytest.fixture(scope="module")
def shared_internet() -> Iterator[Internet]:
    with Internet(memes=600, posts=250, pictures=1, subreddits=("memes",), quick=True) as running:
        yield running


@pytest.fixture
def internet(shared_internet: Internet) -> Iterator[Internet]:
    """The miniature internet of this module; what a test publishes stays, its faults end with the test."""
    yield shared_internet
    shared_internet.set_faults({})


@pytest.fixture
def settings(internet: Internet, tmp_path: Path, store_config: Store) -> Callable[..., Config]:
    """Settings against the miniature internet, without waiting; arguments are further overrides."""

    def build(*overrides: str) -> Config:
        quick = ("crawl.concurrency_per_host=8", "crawl.max_minutes=2", "crawl.imgflip.templates=3")
        config = load_config(
            overrides=[*internet.settings, *quick, f"runs={tmp_path}/runs", *overrides], environment={}
        )
        return config.model_copy(update={"store": store_config})

    return build


def stored(config: Config) -> dict[str, Meme]:
    return {meme.id: meme for meme in open_documents(config.store).scan()}


@pytest.mark.parametrize("source", ["imgflip", "reddit"])
def test_a_further_crawl_finds_what_is_new_and_stops_where_the_last_one_began(
    internet: Internet, settings: Callable[..., Config], source: str
) -> None:
    config = settings(f"crawl.sources=[{source}]")
    first = crawl(config, Silent())
    before = stored(config)
    known = {meme.id for meme in internet.served()}
    internet.publish(memes=24, posts=30)
    second = crawl(config, Silent())
    after = stored(config)
    templates = {meme.template.id for meme in before.values() if meme.template}
    late = {meme.id for meme in internet.served() if meme.source == source} - known
    if source == "imgflip":
        late &= {meme.id for meme in internet.served() if meme.template_id in templates}
    assert set(after) - set(before) == late != set()
    assert second.counts["new"] == len(late)
    assert second.counts["pages"] < first.counts["pages"] / 2


def test_without_incremental_everything_is_looked_at_again(settings: Callable[..., Config]) -> None:
    config = settings("crawl.sources=[reddit]", "crawl.reddit.incremental=false")
    first = crawl(config, Silent())
    second = crawl(config, Silent())
    assert second.counts["pages"] == first.counts["pages"]
    assert (second.counts["new"], second.counts["unchanged"]) == (0, first.counts["memes"])


def test_what_was_set_aside_is_listed_with_its_reason_and_tried_again_when_asked_for(
    internet: Internet, settings: Callable[..., Config]
) -> None:
    config = settings("crawl.sources=[imgflip]", "crawl.retries=1", "crawl.breaker_failures=1000")
    internet.set_faults([Rule("server_error", share=0.1, times=None, path=r"\.jpg")])
    summary = crawl(config, Silent())
    dead = list(failed_requests(config))
    assert summary.counts["requests set aside"] == len(dead) > 10
    assert {(source, request.reason) for source, request in dead} == {("imgflip", "HTTP 503")}
    without = {meme.id for meme in stored(config).values() if meme.image is None}
    assert without, "a meme with a caption is kept without its picture"
    internet.set_faults({})
    again = crawl(config, Silent(), retry_failed=True)
    assert again.counts["requests tried again"] == len(dead)
    assert again.counts["pages"] == 0
    assert all(meme.image is not None for meme in stored(config).values())
    assert list(failed_requests(config)) == []


def test_a_host_that_keeps_failing_rests_and_is_given_up_and_its_requests_wait_for_another_day(
    internet: Internet, settings: Callable[..., Config]
) -> None:
    breaker = ("crawl.breaker_failures=3", "crawl.breaker_seconds=0.2", "crawl.breaker_rests=2", "crawl.retries=10")
    config = settings("crawl.sources=[imgflip]", *breaker)
    internet.set_faults([Rule("reset", times=None, path=r"\.jpg")])
    summary = crawl(config, Silent())
    assert summary.counts["rests of failing hosts"] == 2
    assert summary.reasons["image: host given up"] > 100
    assert len(list(failed_requests(config))) == summary.counts["requests set aside"] > 100
    assert internet.log()["faults"]["reset"] < 60, "a dead host is not hammered"
    internet.set_faults({})
    crawl(config, Silent(), retry_failed=True)
    assert all(meme.image is not None for meme in stored(config).values())


def test_a_crawl_that_reached_its_limit_is_gone_on_with_and_a_fresh_one_begins_anew(
    internet: Internet, settings: Callable[..., Config]
) -> None:
    limited = settings("crawl.sources=[imgflip]", "crawl.max_memes=70")
    for round_ in (1, 2):
        assert crawl(limited, Silent()).counts["new"] == 70
        assert len(stored(limited)) == 70 * round_
    rest = settings("crawl.sources=[imgflip]")
    crawl(rest, Silent())
    found = stored(rest)
    templates = {meme.template.id for meme in found.values() if meme.template}
    assert len(templates) == 3
    served = [meme for meme in internet.served() if meme.source == "imgflip"]
    assert found.keys() == {meme.id for meme in served if meme.template_id in templates}
    fresh = crawl(rest, Silent(), fresh=True)
    assert (fresh.counts["new"], fresh.counts["unchanged"]) == (0, len(found))
