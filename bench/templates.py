"""Precision, recall and speed of template recognition: `python -m bench.templates --data DATA`.

Memes are drawn on one half of the templates and degraded (`bench.templates_drawn`). The index holds both halves but a
fifth of that one, filled up with parts of real memes and of scenes in random order. Every method gets the same bytes,
on one processor, without threads. Memes on templates outside the index must stay unknown. Templates with the same
picture count as one.
"""

import argparse
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from random import Random
from typing import Protocol

import cv2
import numpy as np
from numpy.typing import NDArray
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from bench.crawl_measure import PEERS, ROOT
from bench.rows import Row
from bench.templates_drawn import Blank, Drawn, Half, drawn, load_blanks, stacked, strangers
from memeloom.catalog.images import decode_grey, perceptual_hashes
from memeloom.configs.load import load_config
from memeloom.templates.index import SketchIndex
from memeloom.templates.sketch import sketch_image

GOAL = "precision >= 0.995, recall >= 0.95, >= 200 images/cpu-s, look-up << 1 ms"
_STACKED = 5  # One stacked meme, with the template as a panel or under a strip, per this many usual ones.
_HASH_SIDE = 128  # pixels of a decoded picture's shorter side: twice those that are hashed


@dataclass(frozen=True)
class Answer:
    """The key of a template, None if unknown; and the processor seconds of hashing and of searching."""

    key: str | None
    describing: float
    looking_up: float


class Way(Protocol):
    """A method of template recognition: bytes in, key out."""

    def prepare(self, pictures: Sequence[bytes]) -> None:
        """Preprocess all pictures, if another process does that."""

    def add(self, key: str, data: bytes) -> None:
        """Add a template to the index."""

    def ask(self, data: bytes) -> Answer:
        """Return the template of a meme."""

    @property
    def megabytes(self) -> float:
        """Return the size of the index in MB."""
        ...


class Ours:
    """memeloom's method."""

    def __init__(self) -> None:
        self._index = SketchIndex(load_config(environment={}).templates.min_agreement)
        self._bytes = 0

    def prepare(self, pictures: Sequence[bytes]) -> None:
        """Do nothing."""

    def add(self, key: str, data: bytes) -> None:
        """Compute the sketch and add it."""
        made = sketch_image(data)
        if self._index.add(key, made):
            self._bytes += made.thumb.nbytes + made.points.nbytes + made.bits.nbytes

    def ask(self, data: bytes) -> Answer:
        """Compute the sketch and search."""
        start = time.process_time()
        made = sketch_image(data)
        described = time.process_time()
        found = self._index.find(made)
        return Answer(found[0].key if found else None, described - start, time.process_time() - described)

    @property
    def megabytes(self) -> float:
        """Return the size of tables and sketches."""
        return (self._index.nbytes + self._bytes) / 1e6


class Hashes:
    """The nearest 64-bit hash within a threshold; with `most_256`, the nearest of those by 256 bits."""

    def __init__(self, most: int, most_256: int | None = None) -> None:
        self._most, self._most_256 = most, most_256
        self._keys: list[str] = []
        self._short: list[int] = []
        self._long: list[NDArray[np.uint64]] = []

    def prepare(self, pictures: Sequence[bytes]) -> None:
        """Do nothing."""

    def add(self, key: str, data: bytes) -> None:
        """Hash and add."""
        short, long, _ = self.hashed(data)
        self._keys.append(key)
        self._short.append(int(short, 16))
        self._long.append(_words(long))

    def ask(self, data: bytes) -> Answer:
        """Hash and compare with all."""
        short, long, seconds = self.hashed(data)
        table, table_256 = self._tables
        start = time.process_time()
        apart, most = np.bitwise_count(table ^ np.uint64(int(short, 16))), self._most
        best = int(apart.argmin())
        key = self._keys[best] if apart[best] <= most else None
        if key and self._most_256 is not None:
            near = np.flatnonzero(apart <= most)
            apart_256 = np.bitwise_count(table_256[near] ^ _words(long)).sum(axis=1)
            best = int(apart_256.argmin())
            key = self._keys[int(near[best])] if apart_256[best] <= self._most_256 else None
        return Answer(key, seconds, time.process_time() - start)

    def hashed(self, data: bytes) -> tuple[str, str, float]:
        """Return 64 and 256 bits in hex, and the seconds."""
        start = time.process_time()
        short, long = perceptual_hashes(decode_grey(data, _HASH_SIDE))
        return short, long, time.process_time() - start

    @cached_property
    def _tables(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        return np.array(self._short, np.uint64), np.array(self._long, np.uint64)

    @property
    def megabytes(self) -> float:
        """Return the size of the hashes."""
        return len(self._keys) * (8 if self._most_256 is None else 40) / 1e6


class ImageHash(Hashes):
    """The same with a hash of the package imagehash, which runs in its own environment."""

    def __init__(self, how: str, most: int) -> None:
        super().__init__(most)
        self._how = how
        self._made: dict[bytes, tuple[str, float]] = {}

    def prepare(self, pictures: Sequence[bytes]) -> None:
        """Hash all pictures."""
        with tempfile.TemporaryDirectory() as folder:
            for number, data in enumerate(pictures):
                (Path(folder) / str(number)).write_bytes(data)
            done = subprocess.run(
                [PEERS, "-m", "bench.templates_peer", self._how, folder], cwd=ROOT, check=True, text=True,
                input="\n".join(str(number) for number in range(len(pictures))), capture_output=True, timeout=1800,
            )  # fmt: skip
        for data, line in zip(pictures, done.stdout.splitlines(), strict=True):
            digest, seconds = line.split()
            self._made[data] = digest, float(seconds)

    def hashed(self, data: bytes) -> tuple[str, str, float]:
        """Return the prepared hash; there is no 256-bit one."""
        digest, seconds = self._made[data]
        return digest, "0" * 64, seconds


@dataclass
class Score:
    """Counts of correct and wrong answers."""

    verdicts: Counter[str] = field(default_factory=Counter)
    by_tag: dict[str, Counter[str]] = field(default_factory=dict)
    describing: float = 0.0
    looking_up: float = 0.0
    asked: int = 0

    @property
    def recall(self) -> float:
        """Return the share of memes with a template in the index that were recognised."""
        return self.verdicts["right"] / max(1, sum(self.verdicts[each] for each in ("right", "wrong", "unknown")))

    @property
    def precision_inside(self) -> float:
        """Return the precision on memes with a template in the index."""
        return self.verdicts["right"] / max(1, self.verdicts["right"] + self.verdicts["wrong"])

    @property
    def precision(self) -> float:
        """Return the share of correct answers among all answers."""
        found = sum(self.verdicts[each] for each in ("right", "wrong", "false"))
        return self.verdicts["right"] / max(1, found)


def recognise(data: Path, count: int, index: int, half: Half = "report") -> Iterator[Row]:
    """Yield the table's rows: each method on `count` memes with an index of `index` pictures."""
    cv2.setNumThreads(1)
    blanks = load_blanks(data)
    memes = list(drawn(data, half, count))
    panels = list(stacked(data, half, count // _STACKED))
    known = [(blank.name, blank.path.read_bytes()) for blank in blanks if not (blank.half == half and blank.left_out)]
    filling = _encoded(strangers(data, half, index - len(known)))
    pictures = [*known, *((f"stranger {number}", picture) for number, picture in enumerate(filling))]
    Random(7).shuffle(pictures)
    groups = {blank.name: blank.group for blank in blanks}
    ways: list[tuple[str, Callable[[], Way]]] = [
        ("ours", Ours),
        ("pHash-64 within 10", partial(Hashes, 10)),
        ("pHash-64 within 22 and pHash-256 within 84", partial(Hashes, 22, 84)),
    ]
    if PEERS.exists():
        ways += [(f"imagehash {how} within 8", partial(ImageHash, how, 8)) for how in ("phash", "dhash")]
    for who, make in ways:
        way = make()
        way.prepare([*(picture for _, picture in pictures), *(meme.data for meme in (*memes, *panels))])
        for name, picture in pictures:
            way.add(name, picture)
        yield from _rows(who, _ask(way, memes, groups), _ask(way, panels, groups), way.megabytes)


def _ask(way: Way, memes: Iterable[Drawn], groups: dict[str, str]) -> Score:
    score = Score()
    for meme in memes:
        answer = way.ask(meme.data)
        score.looking_up += answer.looking_up
        score.describing += answer.describing
        score.asked += 1
        verdict = _verdict(answer.key, meme, groups)
        score.verdicts[verdict] += 1
        if verdict not in {"false", "true unknown"}:
            for tag in meme.tags:
                score.by_tag.setdefault(tag, Counter())[verdict] += 1
    return score


def _verdict(key: str | None, meme: Drawn, groups: dict[str, str]) -> str:
    shown: list[Blank] = [meme.blank, *([meme.other] if meme.other else [])]
    there = [blank for blank in shown if not blank.left_out]
    if key is None:
        return "unknown" if there else "true unknown"
    if groups.get(key) in {blank.group for blank in there}:
        return "right"
    return "wrong" if there else "false"


def _rows(who: str, usual: Score, panels: Score, megabytes: float) -> Iterator[Row]:
    rate = usual.asked / (usual.describing + usual.looking_up)
    look_up = 1e6 * usual.looking_up / usual.asked
    yield Row(
        "recognition", who,
        {
            "precision": f"{usual.precision:.4f}, those left out counted; else {usual.precision_inside:.4f}",
            "recall": f"{usual.recall:.4f}",
            "wrong": f"{usual.verdicts['wrong']} of {usual.asked}",
            "false, of memes on templates left out": (
                f"{usual.verdicts['false']} of {usual.verdicts['false'] + usual.verdicts['true unknown']}"
            ),
            "images/cpu-s": f"{rate:.0f}",
            "us a look-up": f"{look_up:.0f}",
            "MB": f"{megabytes:.1f}",
            "recall by harm": ", ".join(f"{tag} {_share(seen):.3f}" for tag, seen in sorted(usual.by_tag.items())),
        },
        goal=GOAL if who == "ours" else "",
        met=usual.precision >= 0.995 and usual.recall >= 0.95 and rate >= 200 if who == "ours" else None,
    )  # fmt: skip
    yield Row(
        "recognition of parts", who,
        {
            "precision": f"{panels.precision:.4f}",
            "recall": ", ".join(f"{tag} {_share(seen):.3f}" for tag, seen in sorted(panels.by_tag.items())),
        },
    )  # fmt: skip


def _share(seen: Counter[str]) -> float:
    return seen["right"] / seen.total()


def _encoded(pictures: Iterable[NDArray[np.uint8]]) -> list[bytes]:
    return [cv2.imencode(".jpg", each, [cv2.IMWRITE_JPEG_QUALITY, 85])[1].tobytes() for each in pictures]


def _words(digest: str) -> NDArray[np.uint64]:
    return np.frombuffer(bytes.fromhex(digest), np.uint64)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds templates/ and real_memes/")
    parser.add_argument("--half", choices=("tune", "report"), default="report")
    parser.add_argument("--count", type=int, default=2000, help="memes")
    parser.add_argument("--index", type=int, default=10_500, help="pictures in the index")
    options = parser.parse_args()
    console = Console(width=150)
    table = Table(title=f"recognition, {options.half} half", box=SIMPLE)
    for column in ("part", "who", "measured", "goal"):
        table.add_column(column)
    for row in recognise(options.data, options.count, options.index, options.half):
        console.print(f"{row.part}: {row.who}: {row.figures}")
        table.add_row(*row.cells)
    console.print(table)


if __name__ == "__main__":
    main()
