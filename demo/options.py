"""The options of a miniature internet, as they are passed to its process."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

Engine: TypeAlias = Literal["bing", "google"]


@dataclass(kw_only=True)
class Options:
    """What the sites serve.

    data: folder of real captions and templates to serve; None: the demo's own.
    memes: number on Imgflip; None: 400 for each template of the demo's own, or all of the folder's.
    seed: of captions, and of the addresses that fail.
    posts: number in each subreddit. subreddits: their names, in lower case.
    pictures: number of results of the image searches; both find the same.
    variety: also serve GIFs, memes of several pictures, memes not safe for work, hard captions, large galleries, and
    search results whose picture is gone.
    quick: draw each template once and give its memes different bytes by a comment in the file, to serve thousands of
    memes at once; captions then end in a number, so their number is unlimited.
    consent: the searches that ask for consent to cookies first.
    """

    data: Path | None = None
    memes: int | None = None
    seed: int = 1
    posts: int = 120
    pictures: int = 150
    subreddits: Sequence[str] = ("memes", "dankmemes")
    variety: bool = False
    quick: bool = False
    consent: Sequence[Engine] = ("google",)
