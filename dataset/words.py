"""How often each word stands in the texts, exactly, in bounded memory.

A word is letters and digits with apostrophes inside (``don't``); every other sign that is not a space is a word of its
own. Counts that grow too many are sorted onto the disk and merged at the end.
"""

import heapq
import itertools
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
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

    def add(self, words: Iterable[str]) -> None:
        """Count each of `words`."""
        self._counts.update(words)
        if len(self._counts) > _MOST_IN_MEMORY:
            self._folder.mkdir(exist_ok=True)
            self._runs.append(_write(self._folder / f"{len(self._runs):05}.txt", sorted(self._counts.items())))
            self._counts.clear()

    def write(self, path: Path) -> None:
        """Write each word and its count, a line each, in order of the words."""
        with _opened(self._runs) as runs:
            _write(path, _merged([sorted(self._counts.items()), *runs]))
        if self._runs:
            shutil.rmtree(self._folder)


def most_common(paths: Sequence[Path], least: int, most: int, folder: Path) -> list[tuple[str, int]]:
    """The `most` words that stand most often in all of what `WordTally.write` wrote to `paths`.

    least: how often a word must stand to be among them. Equally frequent ones come by code point.
    folder: a folder that is not there, for files in between.
    """
    paths, made = list(paths), 0
    while len(paths) > _MERGED:
        folder.mkdir(exist_ok=True)
        merging, paths = paths[:_MERGED], paths[_MERGED:]
        with _opened(merging) as runs:
            paths.append(_write(folder / f"{made:05}.txt", _merged(runs)))
        made += 1
    with _opened(paths) as runs:
        common = heapq.nsmallest(most, ((-count, word) for word, count in _merged(runs) if count >= least))
    if made:
        shutil.rmtree(folder)
    return [(word, -count) for count, word in common]


def _write(path: Path, counts: Iterable[tuple[str, int]]) -> Path:
    with path.open("w", encoding="utf-8", newline="\n") as run:
        run.writelines(f"{word} {count}\n" for word, count in counts)
    return path


@contextmanager
def _opened(paths: Iterable[Path]) -> Iterator[list[Iterator[tuple[str, int]]]]:
    with ExitStack() as files:
        yield [_read(path, files) for path in paths]


def _merged(runs: Iterable[Iterable[tuple[str, int]]]) -> Iterator[tuple[str, int]]:
    """One run of several, each sorted by word; counts of one word are added up."""
    for word, same in itertools.groupby(heapq.merge(*runs, key=itemgetter(0)), key=itemgetter(0)):
        yield word, sum(count for _, count in same)


def _read(path: Path, files: ExitStack) -> Iterator[tuple[str, int]]:
    run = files.enter_context(path.open(encoding="utf-8", newline="\n"))
    for line in run:
        word, _, count = line.rpartition(" ")
        yield word, int(count)
