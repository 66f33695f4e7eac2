"""Two crawling processes on one site: the gaps between requests, and a Retry-After: `python -m bench.crawl_manners`.

Both processes share a frontier, in a file or on Redis, and a delay of one second. Times are the site's, so they contain
the jitter of connections.
"""

import argparse
import contextlib
import multiprocessing
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from bench.rows import Row, print_parts
from memeloom.configs.load import load_config
from memeloom.configs.schema import Config
from memeloom.scrapers.crawl import crawl
from tests.scrapers.subreddits import Subreddits
from tests.services.redis import RedisServer
from tests.services.website import Answer, Asked, Website, serving

_PROCESSES = 2
_DELAY_SECONDS = 1.0
_SMALLEST_GAP_SECONDS = 0.9
_REST_SECONDS = 20
_CONCURRENCY = 2


def main() -> None:
    """Measure and print one table; exit with 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=40, help="number of pictures, on pages of four")
    options = parser.parse_args()
    server = RedisServer()
    try:
        frontiers: dict[str, str | None] = {"SQLite": None, "Redis": server.url()}
        rows = print_parts(
            "Two processes on one host", list(frontiers), lambda name: _measure(name, frontiers[name], options.pictures)
        )
    finally:
        server.stop()
    if missed := [f"{row.part}: {row.who}" for row in rows if row.met is False]:
        raise SystemExit(f"goals missed: {', '.join(missed)}")


def _measure(name: str, frontier: str | None, pictures: int) -> list[Row]:
    return [_gaps(name, frontier, pictures), _backoff(name, frontier, pictures)]


def _gaps(name: str, frontier: str | None, pictures: int) -> Row:
    with _site(frontier) as (site, subreddits, config):
        subreddits.fill(*subreddits.pictures(pictures), per_page=4)
        _crawl(config)
        asked = sorted((each.at, each.path) for each in site.asked)
    gaps = [later[0] - earlier[0] for earlier, later in pairwise(asked)]
    of_pictures = [gap for gap, (_, path) in zip(gaps, asked[1:], strict=True) if path.endswith(".jpg")]
    of_pages = [gap for gap, (_, path) in zip(gaps, asked[1:], strict=True) if not path.endswith(".jpg")]
    figures = {
        "requests": f"{len(asked)} in {asked[-1][0] - asked[0][0]:.1f} s",
        "smallest gap before a page": f"{min(of_pages):.2f} s",
        "smallest gap before a picture": f"{min(of_pictures):.2f} s",
        "median gap": f"{float(np.median(gaps)):.2f} s",
    }
    goal = f"gaps >= {_SMALLEST_GAP_SECONDS} s"
    return Row(name, f"delay {_DELAY_SECONDS:g} s", figures, goal, min(gaps) >= _SMALLEST_GAP_SECONDS)


def _backoff(name: str, frontier: str | None, pictures: int) -> Row:
    refused: list[float] = []

    def answer(_: Asked) -> Answer:
        if not refused:
            refused.append(time.monotonic())
            return 429, {"Retry-After": str(_REST_SECONDS)}, b""
        return 200, {"Content-Type": "image/jpeg"}, _picture(0)

    with _site(frontier) as (site, subreddits, config):
        urls = subreddits.pictures(pictures // 4)
        site.pages["/refused.jpg"] = answer
        subreddits.fill(*urls[:3], f"{site.url}/refused.jpg", *urls[3:])
        _crawl(config)
        after = sorted(each.at - refused[0] for each in site.asked if each.at > refused[0])
    during = [at for at in after if at < _REST_SECONDS]
    figures = {
        f"requests in the {_REST_SECONDS} s after it": str(len(during)),
        "first request after": f"{after[len(during)]:.1f} s",
    }
    goal = f"requests < {_CONCURRENCY}"
    return Row(name, f"429 with Retry-After {_REST_SECONDS}", figures, goal, len(during) < _CONCURRENCY)


@contextlib.contextmanager
def _site(frontier: str | None) -> Iterator[tuple[Website, Subreddits, Config]]:
    with serving() as site, tempfile.TemporaryDirectory() as folder:
        subreddits = Subreddits(site, lambda **crawl: _config(Path(folder), **crawl), _picture)
        settings = {"delay_seconds": _DELAY_SECONDS, "concurrency_per_host": _CONCURRENCY}
        yield site, subreddits, subreddits.config(frontier=frontier, **settings)


def _config(folder: Path, **settings: Any) -> Config:
    config = load_config(environment={})
    crawling = config.crawl.model_dump()
    reddit = crawling["reddit"] | settings.pop("reddit")
    crawling |= settings | {"reddit": reddit, "allow_hosts": ("127.0.0.1",)}
    store = config.store.model_copy(
        update={"documents": f"sqlite:///{folder}/catalog.db", "blobs": str(folder / "blobs")}
    )
    crawl_settings = type(config.crawl).model_validate(crawling)
    return config.model_copy(update={"crawl": crawl_settings, "store": store, "runs": str(folder / "runs")})


def _crawl(config: Config) -> None:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(_PROCESSES, mp_context=context) as processes:
        for crawling in [processes.submit(crawl, config) for _ in range(_PROCESSES)]:
            crawling.result()


def _picture(number: int) -> bytes:
    pixels = np.random.default_rng(number).integers(0, 255, (90, 120, 3), dtype=np.uint8)
    return bytes(cv2.imencode(".jpg", pixels)[1])


if __name__ == "__main__":
    main()
