"""Near copies in two splits of a dataset of the real captions, by a search that misses no pair.

Two sets with the Jaccard index J >= t share one of the rarest |x| - ceil(t |x|) + 1 elements of each (prefix filter:
Chaudhuri, Ganti, Kaushik 2006; Xiao et al. 2008), so an index of those elements finds every pair. For comparison the
captions, with those that were dropped as near copies, are split as before: by a hash of template and words.
"""

import hashlib
import math
import tempfile
import time
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.dataset_build import build, real_catalog
from bench.rows import Row
from memeloom.dataset.dropped import read_dropped
from memeloom.dataset.flow.choose import LEAK_REASON
from memeloom.dataset.flow.similarity import normalise
from memeloom.dataset.manifest import read_manifest
from memeloom.dataset.verify import all_records, verify_dataset

_NEAR = 0.8  # dataset.near_text
_SHINGLE = 4  # bytes


def leak_rows(data: Path) -> Iterator[Row]:
    """Build a dataset, search it for near copies in two splits, and yield the rows."""
    with tempfile.TemporaryDirectory(prefix="memeloom-bench-") as folder:
        output = Path(folder) / "dataset"
        built = build(real_catalog(data, Path(folder)), output, "dataset.keep_dropped=true")
        manifest = read_manifest(output)
        captions = [(record.template, record.boxes, str(record.split)) for record in all_records(output, manifest)]
        dropped = [each for each in read_dropped(output, manifest) if each.reason == LEAK_REASON]
        began = time.perf_counter()
        verify_dataset(output)
        verified = time.perf_counter() - began
    texts = [normalise(boxes) for _, boxes, _ in captions]
    pairs = list(pairs_across(texts, [split for _, _, split in captions], _NEAR))
    figures = {
        "pairs in two splits": str(len(pairs)),
        "captions dropped": f"{len(dropped):,}",
        "seconds of the stage": f"{built.told['seconds']['leaks']:.1f}",
        "seconds to verify": f"{verified:.1f}",
    }
    yield Row("leaks", f"words decide ({len(texts):,} records)", figures, "no pair", not pairs)
    captions += [(each.template, each.boxes, "") for each in dropped]
    texts += [normalise(each.boxes) for each in dropped]
    splits = [_former_split(template, text) for (template, _, _), text in zip(captions, texts, strict=True)]
    pairs = list(pairs_across(texts, splits, _NEAR))
    equal = sum(texts[one] == texts[other] for one, other in pairs)
    figures = {
        "pairs in two splits": f"{len(pairs):,}, {equal:,} of them equal",
        "captions in them outside of test": f"{len({one for one, _ in pairs}):,}",
    }
    yield Row("leaks", "template and words decide", figures)


def _former_split(template: str, text: str) -> str:
    share = int.from_bytes(hashlib.sha256(f"{template}\0{text}".encode()).digest()[:2], "big") / 2**16
    return "test" if share < 0.05 else "validation" if share < 0.1 else "train"


def pairs_across(texts: Sequence[str], splits: Sequence[str], least: float) -> Iterator[tuple[int, int]]:
    """Yield the numbers of all texts in different splits whose Jaccard index is at least `least`, a test one last."""
    rank = {"train": 0, "validation": 1, "test": 2}
    sets = _ranked(texts)
    index: defaultdict[int, list[int]] = defaultdict(list)
    for at, split in enumerate(splits):
        if split != "train":
            for element in _prefix(sets[at], least):
                index[element].append(at)
    for at, split in enumerate(splits):
        ours = sets[at]
        low, high, mine = least * len(ours), len(ours) / least, rank[split]
        found = {
            other for element in _prefix(ours, least) for other in index.get(element, ())
            if rank[splits[other]] > mine and low <= len(sets[other]) <= high
        }  # fmt: skip
        whole = set(ours) if found else set()
        for other in sorted(found):
            common = len(whole.intersection(sets[other]))
            if common >= least * (len(ours) + len(sets[other]) - common):
                yield at, other


def _ranked(texts: Sequence[str]) -> "list[array[int]]":
    """Return the set of shingles of each text as numbers, the rarest first."""
    counts: Counter[bytes] = Counter()
    for text in texts:
        counts.update(_shingles(text))
    numbers = {shingle: at for at, (shingle, _) in enumerate(sorted(counts.items(), key=lambda item: (item[1], item)))}
    return [array("I", sorted(numbers[shingle] for shingle in _shingles(text))) for text in texts]


def _shingles(text: str) -> set[bytes]:
    data = text.encode().ljust(_SHINGLE)
    return {data[at : at + _SHINGLE] for at in range(len(data) - _SHINGLE + 1)}


def _prefix(elements: "array[int]", least: float) -> "array[int]":
    return elements[: len(elements) - math.ceil(least * len(elements) - 1e-9) + 1]
