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
    consent: tuple[Engine, ...] = ("google",)
