"""The arguments of `demo.internet.Internet`, as they are passed to its process."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

Engine: TypeAlias = Literal["bing", "google"]


@dataclass(frozen=True, slots=True)
class Options:
    """See `demo.internet.Internet` for each."""

    data: Path | None = None
    memes: int | None = None
    seed: int = 1
    posts: int = 120
    pictures: int = 150
    subreddits: tuple[str, ...] = ("memes", "dankmemes")
    variety: bool = False
    quick: bool = False
    latency: float = 0
    consent: tuple[Engine, ...] = ("google",)
    old_api: bool = False
    token_seconds: float = 3600
    reddit_requests: int = 600
    reddit_window: float = 600
