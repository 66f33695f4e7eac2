"""How often each word stands in the texts, exactly, in bounded memory.

A word is letters and digits with apostrophes inside (``don't``); every other sign that is not a space is a word of its
own. Counts that grow too many are sorted onto the disk and merged at the end.
"""

import heapq
import itertools
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from operator import itemgetter
from pathlib import Path

_WORD = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")
# Different words in memory, about 30 MB.
_MOST_IN_MEMORY = 200_000
# Files that are merged at once, so that not too many are open.
_MERGED = 64


def split_words(text: str) -> list[str]:
    """The words of a text, in order."""
    return _WORD.findall(text)


class WordTally:
    """Counts words. folder: a folder that is not there; it is made when memory does not do, and removed at the end."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._counts: Counter[str] = Counter()
        self._runs: list[Path] = []
        self._made = 0

    def add(self, words: Iterable[str]) -> None:
        """Count each of `words`."""
        self._counts.update(words)
        if len(self._counts) > _MOST_IN_MEMORY:
            self._spill(sorted(self._counts.items()))
            self._counts.clear()

    def most_common(self, least: int, most: int) -> list[tuple[str, int]]:
        """The `most` words that stand most often, if at least `least` times; equally frequent ones by code point."""
        while len(self._runs) > _MERGED:
            merging, self._runs = self._runs[:_MERGED], self._runs[_MERGED:]
            with ExitStack() as files:
                self._spill(_merged([_read(path, files) for path in merging]))
        with ExitStack() as files:
            merged = _merged([sorted(self._counts.items()), *(_read(path, files) for path in self._runs)])
            common = heapq.nsmallest(most, ((-count, word) for word, count in merged if count >= least))
        if self._runs:
            shutil.rmtree(self._folder)
            self._runs.clear()
        return [(word, -count) for count, word in common]

    def _spill(self, counts: Iterable[tuple[str, int]]) -> None:
        self._folder.mkdir(exist_ok=True)
        path = self._folder / f"{self._made:05}.txt"
        with path.open("w", encoding="utf-8", newline="\n") as run:
            run.writelines(f"{word} {count}\n" for word, count in counts)
        self._made += 1
        self._runs.append(path)


def _merged(runs: Iterable[Iterable[tuple[str, int]]]) -> Iterator[tuple[str, int]]:
    """One run of several, each sorted by word; counts of one word are added up."""
    for word, same in itertools.groupby(heapq.merge(*runs, key=itemgetter(0)), key=itemgetter(0)):
        yield word, sum(count for _, count in same)


def _read(path: Path, files: ExitStack) -> Iterator[tuple[str, int]]:
    run = files.enter_context(path.open(encoding="utf-8", newline="\n"))
    for line in run:
        word, _, count = line.rpartition(" ")
        yield word, int(count)
