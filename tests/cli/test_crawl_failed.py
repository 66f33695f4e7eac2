"""`--failed` and `--drop-failed` of `memeloom crawl` and `memeloom fetch`."""

import io
import json
import time
from contextlib import closing

import pytest

from memeloom.cli.crawl_failed import When
from memeloom.configs.load import load_config
from memeloom.scrapers.frontier.contract import Changes, QueuedRequest, frontier_of
from tests.cli.conftest import Memeloom

LETTERS = (
    ("imgflip", "HTTP 503", "i.imgflip.com"),
    ("imgflip", "timed out", "imgflip.com"),
    ("reddit", "HTTP 503", "i.redd.it"),
    ("fetch", "timed out", "i.imgur.com"),
)
BOTH = ("crawl", "imgflip", "reddit")


@pytest.fixture
def letters(memeloom: Memeloom) -> None:
    """Dead letters of two sources, in the working folder."""
    for source, reason, host in LETTERS:
        with closing(frontier_of(load_config(environment={}), source)) as frontier:
            frontier.open()
            added = Changes(added=[QueuedRequest(f'{{"url":"https://{host}/1"}}', host)])
            (lease,) = frontier.exchange(added, 1).leases
            frontier.exchange(Changes(dead=[(lease.id, reason)]), 0)


@pytest.mark.usefixtures("letters")
def test_failed_requests_are_counted_and_listed(memeloom: Memeloom) -> None:
    result = memeloom(*BOTH, "--failed")
    rows = [line.split("\t") for line in result.out.splitlines()]
    assert [(source, reason, url) for source, _, reason, url in rows] == [
        (source, reason, f"https://{host}/1") for source, reason, host in LETTERS if source in BOTH
    ]
    assert all(abs(When().convert(at, None, None) - time.time()) < 60 for _, at, *_ in rows)
    assert "HTTP 503  │        2" in result.err
    assert "i.redd.it     │        1" in result.err


@pytest.mark.usefixtures("letters")
def test_json_lines_hold_the_selected_requests(memeloom: Memeloom) -> None:
    result = memeloom(*BOTH, "--failed", "--json", "--reason", "503", "--host", "imgflip.com", "--since", "1h")
    (line,) = result.out.splitlines()
    facts = json.loads(line)
    assert facts.pop("failed_at")
    assert facts == {
        "source": "imgflip", "reason": "HTTP 503", "host": "i.imgflip.com", "url": "https://i.imgflip.com/1",
        "attempts": 1,
    }  # fmt: skip
    assert memeloom(*BOTH, "--failed", "--until", "2020-01-01").out == ""


@pytest.mark.usefixtures("letters")
def test_dropping_asks_and_drops_what_is_selected(memeloom: Memeloom, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    refused = memeloom(*BOTH, "--drop-failed")
    assert (refused.code, len(memeloom(*BOTH, "--failed").out.splitlines())) == (2, 3)
    assert "--yes is needed when there is no terminal to ask on; nothing was dropped" in refused.err
    dropped = memeloom(*BOTH, "--drop-failed", "--host", "imgflip.com", "--yes")
    assert dropped.out == "dropped 2 failed requests\n"
    assert "i.redd.it" in memeloom(*BOTH, "--failed").out
    assert memeloom("crawl", "imgflip", "--drop-failed", "--yes").err == "no failed request matches\n"


@pytest.mark.usefixtures("letters")
def test_those_of_a_fetch_are_its_own(memeloom: Memeloom) -> None:
    (line,) = memeloom("fetch", "--failed").out.splitlines()
    assert line.split("\t")[2:] == ["timed out", "https://i.imgur.com/1"]
    assert memeloom("fetch", "--drop-failed", "--yes").out == "dropped 1 failed requests\n"
    assert memeloom("fetch", "--fresh", "--failed").code == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--failed", "--retry-failed"), "exclude each other"),
        (("--failed", "--drop-failed"), "exclude each other"),
        (("--fresh", "--drop-failed"), "--fresh goes with none of"),
        (("--host", "x.com"), "--host goes with --failed, --retry-failed or --drop-failed"),
        (("--retry-failed", "--json"), "--json goes with --failed"),
        (("--failed", "--yes"), "--yes goes with --drop-failed"),
        (("--failed", "--since", "yesterday"), "'yesterday': write 12h (ago; s, m, h, d, w), 2026-11-23"),
    ],
)
def test_options_that_make_no_sense_are_refused(memeloom: Memeloom, arguments: tuple[str, ...], message: str) -> None:
    result = memeloom("crawl", *arguments)
    assert result.code == 2
    assert message in result.err


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1970-01-02", 86400), ("1970-01-01T01:00", 3600), ("1970-01-01T01:00+01:00", 0), ("1970-01-01T00:00:07Z", 7)],
)
def test_times_are_utc_unless_they_say_otherwise(text: str, seconds: int) -> None:
    assert When().convert(text, None, None) == seconds


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("3h", 3 * 3600), ("2w", 14 * 86400)])
def test_times_ago_count_from_now(text: str, seconds: int) -> None:
    assert abs(time.time() - seconds - When().convert(text, None, None)) < 60
