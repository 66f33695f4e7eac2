"""The choice of memes by a bandit against a uniform one, for simulated people: make bench-feedback.

People like questions in few words, some templates more than others, and one of two models more. Each round they see a
page of 10 memes out of 200 new ones, and react to a third of them. Regret is the number of likes missed: the sum of the
like rates of the best 10 memes less that of the memes shown.
"""

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from memeloom.catalog.feed import FeedMeme, Sums, meme_id
from memeloom.report.plot import Plot, Series, picture
from memeloom.serve.feed.bandit import Bandit

PAGE: Final = 10
_CANDIDATES: Final = 200
_WORDS: Final = (
    "tea",
    "rain",
    "cake",
    "boss",
    "code",
    "mail",
    "door",
    "snow",
    "fish",
    "lamp",
    "road",
    "milk",
    "cat",
    "why",
)
_ARMS: Final = ("one", "two")
_REACTING: Final = 1 / 3
_TIME: Final = datetime(2026, 1, 1, tzinfo=UTC)


class Chooser(Protocol):
    """What chooses the memes of a page."""

    def choose(self, candidates: Sequence[FeedMeme], most: int, rng: np.random.Generator) -> list[int]:
        """See `Bandit.choose`."""
        ...

    def learn(self, rows: Sequence[tuple[FeedMeme, Sums]]) -> None:
        """See `Bandit.learn`."""
        ...


class Uniform:
    """Chooses at random."""

    def choose(self, candidates: Sequence[FeedMeme], most: int, rng: np.random.Generator) -> list[int]:
        """See `Bandit.choose`."""
        return rng.permutation(len(candidates))[:most].tolist()  # type: ignore[no-any-return]

    def learn(self, rows: Sequence[tuple[FeedMeme, Sums]]) -> None:
        """Learn nothing."""


class Replayed(NamedTuple):
    """What happened. regret: of each round, (rounds,). shown: how often each template was shown, (templates,)."""

    regret: NDArray[np.float64]
    shown: NDArray[np.int64]


def replay(chooser: Chooser, rounds: int, seed: int, templates: int = 20) -> Replayed:
    """Show `rounds` pages to simulated people; equal seeds give equal people and memes."""
    people = np.random.default_rng([seed, 1])
    tastes = people.normal(0, 0.15, templates)
    own = np.random.default_rng([seed, 2])
    regret, shown = np.zeros(rounds), np.zeros(templates, np.int64)
    for turn in range(rounds):
        memes = list(_memes(people, templates, turn))
        rates = np.array([_rate(meme, tastes) for meme in memes])
        chosen = chooser.choose(memes, PAGE, own)
        regret[turn] = np.sort(rates)[-PAGE:].sum() - rates[chosen].sum()
        shown += np.bincount([int(memes[each].template) for each in chosen], minlength=templates)
        liked, reacts = own.random(PAGE) < rates[chosen], own.random(PAGE) < _REACTING
        chooser.learn(
            [
                (memes[each], Sums(int(like), int(not like), 1) if react else Sums(shown=1))
                for each, like, react in zip(chosen, liked.tolist(), reacts.tolist(), strict=True)
            ]
        )
    return Replayed(regret, shown)


def _memes(rng: np.random.Generator, templates: int, turn: int) -> Iterator[FeedMeme]:
    for number in range(_CANDIDATES):
        words = rng.choice(_WORDS, rng.integers(2, 14)).tolist()
        template = str(rng.integers(templates))
        boxes = (" ".join(words[::2]), " ".join(words[1::2]) + "?" * int(rng.random() < 0.3))
        yield FeedMeme(
            id=meme_id(template, (*boxes, str(turn), str(number))), template=template, boxes=boxes, model="m",
            arm=_ARMS[int(rng.integers(2))], score=0.1, written_at=_TIME,
        )  # fmt: skip


def _rate(meme: FeedMeme, tastes: NDArray[np.float64]) -> float:
    """Return the probability that somebody who reacts likes `meme`."""
    text = " ".join(meme.boxes)
    rate = 0.35 + tastes[int(meme.template)] + 0.2 * ("?" in text) + 0.1 * (meme.arm == "two")
    return float(np.clip(rate - 0.02 * max(len(text.split()) - 6, 0), 0.02, 0.98))


_Choosers: TypeAlias = dict[str, Callable[[], Chooser]]
_CHOOSERS: Final[_Choosers] = {"uniform": Uniform, "bandit": Bandit}


def main() -> None:
    """Print the figures and draw the curve."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--output", type=Path, default=Path("docs/images/feed-regret.svg"))
    arguments = parser.parse_args()
    lines = []
    for name, make in _CHOOSERS.items():
        runs = [replay(make(), arguments.rounds, seed) for seed in range(arguments.seeds)]
        regret = np.mean([run.regret for run in runs], axis=0)
        least = min(run.shown.min() for run in runs)
        last = regret[-len(regret) // 10 :].mean()
        print(f"{name}: regret {regret.sum():,.0f}, in the last tenth {last:.2f} a page, least shown template {least}")
        step = max(len(regret) // 100, 1)
        lines.append(Series(name, [(float(at), float(regret[:at].sum())) for at in range(0, len(regret) + 1, step)]))
    plot = Plot(title="Regret: likes missed", series=lines, x_label="pages of 10 memes")
    arguments.output.write_text(picture([plot]), encoding="utf-8")
    _time()


def _time() -> None:
    """Print how long learning and choosing take with 100,000 rated memes of 300 templates."""
    rng, bandit = np.random.default_rng(1), Bandit()
    memes = [meme for turn in range(500) for meme in _memes(rng, 300, turn)]
    rows = [(meme, Sums(int(rng.integers(9)), int(rng.integers(9)), 30)) for meme in memes]
    for name, part in (("100,000 memes", rows), ("the same again", rows), ("100 new reactions", [
        (meme, Sums(sums.likes + 1, sums.dislikes, sums.shown)) for meme, sums in rows[:100]
    ])):  # fmt: skip
        started = time.perf_counter()
        bandit.learn(part)
        print(f"learn {name}: {time.perf_counter() - started:.2f} s")
    candidates = list(_memes(rng, 300, -1))
    times = []
    for _ in range(50):
        started = time.perf_counter()
        bandit.choose(candidates, PAGE, rng)
        times.append(time.perf_counter() - started)
    print(f"choose 10 of {len(candidates)}: {1000 * np.median(times):.1f} ms")


if __name__ == "__main__":
    main()
