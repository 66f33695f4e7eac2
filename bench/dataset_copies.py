"""Recall of planted duplicates, and false positives.

Pairs on one picture: real captions of one template that share half of their shingles, nearly all different jokes; and
captions with errors of OCR in a share of their letters and spaces. Those of one half of the templates.

Captions: those of the reporting half of the templates get a second version, with typos and OCR errors (duplicates) or
with one word replaced (different jokes). Pictures: drawn memes are posted again by a second site, scaled and
compressed, under another template name; compared with two picture hashes.
"""

import gzip
import hashlib
import io
import itertools
import json
import random
import string
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from PIL import Image as Pillow

from bench.dataset_build import CAPTIONS
from bench.rows import Row
from bench.templates_drawn import Blank, drawn, load_blanks
from memeloom.catalog.images import inspect_image
from memeloom.catalog.records import Image, Meme, TemplateRef, hamming
from memeloom.catalog.stores import open_documents
from memeloom.configs.load import load_config
from memeloom.configs.progress import Progress
from memeloom.dataset.build import build_dataset
from memeloom.dataset.flow.misread import is_misread
from memeloom.dataset.flow.similarity import differ_in_one_letter, normalise, similarity
from memeloom.dataset.formats.tfrecord import read_records
from memeloom.dataset.schema import decode_record

_CAPTIONS, _PICTURES, _A_TEMPLATE = 6000, 1000, 8
_NEAR = 0.8  # dataset.near_text
# Pairs on one picture: similarity of the real ones, and captions of a template to pair.
_ALIKE, _ON_A_TEMPLATE = 0.5, 300
_MAX_BYTES, _MAX_PIXELS = 10**8, 10**8
# Characters that OCR confuses.
_MISREAD = MappingProxyType({"o": "0", "l": "i", "i": "l", "s": "5", "e": "c", "m": "rn", "w": "vv", "n": "ri"})


@dataclass(frozen=True)
class Pair:
    """A caption and its second version. kind: how it was changed; copy: True if it is a duplicate."""

    kind: str
    copy: bool
    template: str
    one: tuple[str, ...]
    other: tuple[str, ...]


def copy_rows(data: Path) -> Iterator[Row]:
    """Yield the rows for captions and for pictures."""
    yield from _word_rows(data)
    yield from _pair_rows(data)
    yield from _picture_rows(data)


def _retyped(words: list[str], chance: random.Random) -> list[str]:
    at = chance.choice([n for n, word in enumerate(words) if len(word) > 2] or [0])
    word, place = words[at], chance.randrange(max(len(words[at]) - 1, 1))
    letter = chance.choice(string.ascii_lowercase)
    wrong = chance.choice([
        word[:place] + word[place + 1 :], word[:place] + word[place] + word[place:],
        word[:place] + word[place : place + 2][::-1] + word[place + 2 :], word[:place] + letter + word[place + 1 :],
    ])  # fmt: skip
    return [*words[:at], wrong, *words[at + 1 :]]


def _misread(words: list[str], chance: random.Random) -> list[str]:
    places = [(n, m) for n, word in enumerate(words) for m, letter in enumerate(word) if letter in _MISREAD]
    if not places:
        return _retyped(words, chance)
    at, place = chance.choice(places)
    word = words[at]
    return [*words[:at], word[:place] + _MISREAD[word[place]] + word[place + 1 :], *words[at + 1 :]]


def _punctuated(words: list[str], chance: random.Random) -> list[str]:
    return [word.strip(".,!?'\"") + chance.choice(["", "", ",", "...", "!"]) for word in words]


def _shortened(words: list[str], chance: random.Random) -> list[str]:
    short = [n for n, word in enumerate(words) if len(word) <= 3]
    if short and chance.random() < 0.5:
        at = chance.choice(short)
        return words[:at] + words[at + 1 :]
    at = chance.randrange(len(words) + 1)
    return [*words[:at], chance.choice(["the", "so", "a", "just", "me"]), *words[at:]]


_COPIES: Sequence[tuple[str, Callable[[list[str], random.Random], list[str]]]] = (
    ("other signs", _punctuated), ("retyped letter", _retyped), ("misread letter", _misread),
    ("short word", _shortened),
)  # fmt: skip


def _word_rows(data: Path) -> Iterator[Row]:
    pairs = list(_pairs(data))
    second = [_version(number, 1, pair) for number, pair in enumerate(pairs)]
    # Skip pairs whose second version the filters drop.
    passed = _left(second)
    pairs = [pair for pair, meme in zip(pairs, second, strict=True) if meme.id in passed]
    left = _left([_version(number, which, pair) for number, pair in enumerate(pairs) for which in (0, 1)])
    for kind in dict.fromkeys(pair.kind for pair in pairs):
        numbers = {number for number, pair in enumerate(pairs) if pair.kind == kind}
        lost = {n for n in numbers if not {_name(n, 0), _name(n, 1)} <= left}
        near = {n for n in numbers if similarity(normalise(pairs[n].one), normalise(pairs[n].other)) >= _NEAR}
        shares = {
            "left out": f"{len(lost) / len(numbers):.3f} of {len(numbers):,}",
            f"of those at {_NEAR} or above": f"{len(near & lost) / max(len(near), 1):.3f} of {len(near):,}",
            "of those below": f"{len(lost - near) / max(len(numbers - near), 1):.4f} of {len(numbers - near):,}",
        }
        copies = all(pairs[n].copy for n in numbers)
        yield Row("copies of words" if copies else "no copies of words", kind, shares)


def _pair_rows(data: Path) -> Iterator[Row]:
    """Yield how many pairs of captions are taken for one on nearly the same picture."""
    templates: defaultdict[str, list[str]] = defaultdict(list)
    for template, boxes in _captions(data):
        templates[template].append(normalise(boxes))
    alike = [
        pair for texts in templates.values() for pair in itertools.combinations(texts[:_ON_A_TEMPLATE], 2)
        if _NEAR > similarity(*pair) >= _ALIKE and not differ_in_one_letter(*pair)
    ]  # fmt: skip
    yield Row("pairs on one picture", "real, alike by half", {"taken for one": _share(alike)})
    chance = random.Random(1)
    captions = [text for texts in templates.values() for text in texts]
    some = chance.sample(captions, min(_CAPTIONS, len(captions)))
    for letters, spaces in ((0.02, 0.02), (0.04, 0.03)):
        copies = [(text, _misread_often(text, letters, spaces, chance)) for text in some]
        yield Row("pairs on one picture", f"{letters:.0%} of letters misread", {"found": _share(copies)})


def _share(pairs: Sequence[tuple[str, str]]) -> str:
    taken = sum(similarity(*pair) >= _NEAR or is_misread(*pair) for pair in pairs)
    return f"{taken / len(pairs):.4f} of {len(pairs):,}"


def _misread_often(text: str, letters: float, spaces: float, chance: random.Random) -> str:
    def read(letter: str) -> str:
        if letter == " ":
            return "" if chance.random() < spaces else " "
        if chance.random() >= letters:
            return letter
        other = chance.choice(string.ascii_lowercase)
        return chance.choice([_MISREAD.get(letter, other)] * 4 + [other, ""])

    return normalise(["".join(map(read, text.strip()))])


def _version(number: int, which: int, pair: Pair) -> Meme:
    template = TemplateRef(id=pair.template, slug=pair.template, name=pair.template)
    return Meme(id=_name(number, which), source="planted", template=template, boxes=(pair.one, pair.other)[which])


def _name(number: int, which: int) -> str:
    return f"planted:{number:06}-{which}"


def _pairs(data: Path) -> Iterator[Pair]:
    """Yield captions that pass the default filters and are unlike all others, each with a second version."""
    chance = random.Random(0)
    captions = list(_captions(data))
    vocabulary = sorted({word for _, boxes in captions[::5] for box in boxes for word in box.split() if len(word) > 3})
    chance.shuffle(captions)
    for number, (template, boxes) in enumerate(captions[:_CAPTIONS]):
        if number % 2:
            words = " ".join(boxes).split()
            at = chance.choice([n for n, word in enumerate(words) if len(word) > 3] or [0])
            other = [*words[:at], chance.choice(vocabulary), *words[at + 1 :]]
            yield Pair("another word", copy=False, template=template, one=boxes, other=_divided(other, boxes))
        else:
            kind, change = _COPIES[number // 2 % len(_COPIES)]
            other = change(" ".join(boxes).split(), chance)
            yield Pair(kind, copy=True, template=template, one=boxes, other=_divided(other, boxes))


def _captions(data: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    memes = []
    with gzip.open(data / CAPTIONS, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            row = json.loads(line)
            name = str(row["template"])
            if number % 5 == 0 and hashlib.sha256(name.encode()).digest()[0] % 2:
                template = TemplateRef(id=name, slug=name, name=name)
                memes.append(Meme(id=f"real:{number}", source="real", template=template, boxes=tuple(row["boxes"])))
    left = _left(memes)
    for meme in memes:
        if meme.id in left and meme.template:
            yield meme.template.id, tuple(box.lower() for box in meme.boxes)


def _divided(words: Sequence[str], boxes: Sequence[str]) -> tuple[str, ...]:
    first = len(boxes[0].split())
    return tuple(" ".join(part) for part in (words[:first], words[first:])[: len(boxes)] if part) or (" ".join(words),)


def _left(memes: Sequence[Meme]) -> set[str]:
    with tempfile.TemporaryDirectory(prefix="memeloom-bench-") as folder:
        places = [f"store.documents=sqlite:///{folder}/catalog.db", f"store.blobs={folder}/blobs"]
        config = load_config(overrides=[*places, f"dataset.output={folder}/dataset"], environment={})
        with closing(open_documents(config.store)) as documents:
            documents.upsert(memes)
        build_dataset(config, Progress())
        shards = sorted(Path(config.dataset.output).glob("*.tfrecord.gz"))
        return {decode_record(record).id for shard in shards for record in read_records(shard)}


def _picture_rows(data: Path) -> Iterator[Row]:
    memes, twins = _posts(data)
    # Skip memes whose OCR errors make the filters drop them.
    alone = _left(memes), _left(twins)
    pairs = [(one, twin) for one, twin in zip(memes, twins, strict=True) if one.id in alone[0] and twin.id in alone[1]]
    memes, twins = [one for one, _ in pairs], [twin for _, twin in pairs]
    left = _left([*memes, *twins])
    found = sum(not {one.id, twin.id} <= left for one, twin in pairs)
    gone = sum(not {one.id, twin.id} & left for one, twin in pairs)
    yield Row("copies of pictures", "ours", {
        "found": f"{found / len(memes):.3f} of {len(memes):,}",
        "taken for another meme's": f"{gone / len(memes):.4f}",
    })  # fmt: skip
    for bits, most in ((64, 10), (256, 8), (256, 12)):
        keys, others = ([getattr(meme.image, f"phash{bits}") for meme in posts] for posts in (memes, twins))
        near = sum(hamming(key, other) <= most for key, other in zip(keys, others, strict=True))
        wrong = sum(any(hamming(key, other) <= most for m, other in enumerate(keys) if m != n)
                    for n, key in enumerate(keys))  # fmt: skip
        yield Row("copies of pictures", f"pHash-{bits} within {most}", {
            "found": f"{near / len(memes):.3f} of {len(memes):,}",
            "taken for another meme's": f"{wrong / len(memes):.4f}",
        })  # fmt: skip


def _posts(data: Path) -> tuple[list[Meme], list[Meme]]:
    blanks = [blank for blank in load_blanks(data) if blank.half == "report"]
    groups: dict[str, Blank] = {blank.group: blank for blank in reversed(blanks)}
    some = [groups[name] for name in sorted(groups)][: _PICTURES // _A_TEMPLATE]
    chance = random.Random(0)
    memes: list[Meme] = []
    twins: list[Meme] = []
    said: Counter[tuple[str, ...]] = Counter()
    for number, meme in enumerate(drawn(data, "report", 2 * _PICTURES, seed=9, blanks=some, harmed=False)):
        words = tuple(text.lower() for text in meme.texts)
        length = sum(map(len, words))
        if said[words] or not 10 <= length <= 82 or len(memes) == _PICTURES:
            continue
        said[words] += 1
        again = (" ".join(_misread(" ".join(words).split(), chance)),)
        memes.append(_post(f"first:{number}", meme.blank.name, words, meme.data))
        twins.append(_post(f"second:{number}", f"{meme.blank.name} again", again, _sent_on(meme.data, chance)))
    return memes, twins


def _post(name: str, template: str, boxes: tuple[str, ...], data: bytes) -> Meme:
    image: Image = inspect_image(data, max_bytes=_MAX_BYTES, max_pixels=_MAX_PIXELS)
    ref = TemplateRef(id=template, slug="a", name="a template")
    return Meme(id=name, source=name.partition(":")[0], template=ref, boxes=boxes, image=image)


def _sent_on(data: bytes, chance: random.Random) -> bytes:
    picture = Pillow.open(io.BytesIO(data)).convert("RGB")
    scale = chance.uniform(0.5, 1.5)
    out = io.BytesIO()
    smaller = picture.resize((round(picture.width * scale), round(picture.height * scale)))
    smaller.save(out, "JPEG", quality=chance.randint(40, 80))
    return out.getvalue()
