"""Counted estimates equal those of their definition, with and without a caption's own counts."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray

from memeloom.train.characters import Alphabet
from memeloom.train.model_folder import write_content
from memeloom.train.ngram.chain import Chain
from memeloom.train.ngram.contexts import LONGEST, UNKNOWN_TEMPLATE, Context, Spelling, hashes
from memeloom.train.ngram.counts import CHAINS, Counts
from memeloom.train.ngram.levels import Level, count_level
from memeloom.train.ngram.storage import FILES, files, restored
from memeloom.train.ngram.text import Text
from memeloom.train.runtime_folder import read_content

CAPTIONS = [
    "one does not simply|walk into mordor|",
    "one does not simply|eat one cookie|",
    "such wow|much meme|",
    "is too damn high|is too damn high|",
    "x all the things|",
    "one|one|",
] * 4
ALPHABET = Alphabet(tuple(sorted(set("".join(CAPTIONS)))))
SPELLING = Spelling.of(ALPHABET, "|")
EVERY_CONTEXT = [context for chain in CHAINS.values() for context in chain]


def text_of(captions: Sequence[str], templates: Sequence[int] | None = None) -> Text:
    characters = ALPHABET.encode("".join(captions))
    starts = np.concatenate([[0], np.cumsum([len(caption) for caption in captions])])
    numbers = [1 + number % 2 for number in range(len(captions))] if templates is None else templates
    return Text(characters, starts, np.array(numbers), SPELLING)


def plain_context(context: Context, caption: str, at: int, template: int) -> tuple[object, ...]:
    """A context as text."""
    before = caption[:at]
    words = before.replace("|", " ").split(" ")
    if context.words:
        latest = [*words[::-1], "", ""][: context.words]
        while len(latest) > 1 and not latest[-1]:
            latest.pop()
        stretch: object = latest[0] if len(latest) == 1 else tuple(latest)
    elif context.suffix:
        stretch = words[-1][-context.suffix :]
    else:
        stretch = f"\0{before}"[-context.characters :] if context.characters else ""
    return stretch, template if context.template else 0, before.count("|") if context.box else -1


@pytest.mark.parametrize("context", [*EVERY_CONTEXT, Context(characters=2, template=True, box=True)])
def test_hashes_are_equal_where_contexts_are(context: Context) -> None:
    text = text_of(CAPTIONS)
    found = hashes(context, text.stretches).tolist()
    plain = [
        plain_context(context, caption, at, int(text.templates[row]))
        for row, caption in enumerate(CAPTIONS)
        for at in range(len(caption))
    ]
    assert len(set(found)) == len(set(plain)) == len(set(zip(found, plain, strict=True)))


@pytest.mark.parametrize("context", EVERY_CONTEXT)
def test_a_state_in_decoding_has_the_hashes_of_the_text(context: Context) -> None:
    text = text_of(CAPTIONS[:4])
    expected = hashes(context, text.stretches)
    counts = Counts.fit(text)
    state = counts.begin(text.templates)
    lengths = np.diff(text.starts)
    for at in range(lengths.max()):
        going = np.flatnonzero(at < lengths)
        assert hashes(context, state)[going].tolist() == expected[text.starts[going] + at].tolist()
        read = text.characters[np.minimum(text.starts[:-1] + at, len(text) - 1)].astype(np.int64)
        state = state.replaced(at < lengths, state.read(read))


def test_a_block_of_captions_has_the_hashes_of_the_whole() -> None:
    text = text_of(CAPTIONS)
    context = Context(characters=LONGEST, template=True)
    blocks = [hashes(context, block.stretches) for _, block in text.blocks(50)]
    assert len(blocks) > 5
    assert np.concatenate(blocks).tolist() == hashes(context, text.stretches).tolist()


def test_a_level_finds_what_was_counted_and_nothing_else() -> None:
    hashed = np.array([5, 9, 5, 2**40], np.uint64) << np.uint64(20)
    level, places = count_level(hashed, np.array([1, 0, 1, 2]), np.array([1, 1, 2, 1], np.uint32))
    assert level.find(hashed).tolist() == [0, 1, 0, 2]
    assert level.find(np.array([0, 7 << 20, 2**63], np.uint64)).tolist() == [-1, -1, -1]
    assert level.counts.tolist() == [3, 1, 1]
    assert sorted(places.tolist())[1:] == [1, 3]


Estimate: TypeAlias = Callable[[str, int, int], NDArray[np.float64]]


def definition(chain: Sequence[Context], captions: Sequence[str], discounts: Sequence[NDArray[np.float32]]) -> Estimate:
    """Return interpolated Kneser-Ney over `chain`, straight from its definition, as a function of a place."""
    templates = [1 + row % 2 for row in range(len(captions))]
    # For each level: context to character to count.
    levels: list[dict[object, dict[str, int]]] = [{} for _ in chain]
    items = [(row, at, 1) for row, caption in enumerate(captions) for at in range(len(caption))]
    for number in range(len(chain) - 1, -1, -1):
        going: list[tuple[int, int, int]] = []
        for row, at, weight in items:
            own = plain_context(chain[number], captions[row], at, templates[row])
            if number and own == plain_context(chain[number - 1], captions[row], at, templates[row]):
                going.append((row, at, weight))
                continue
            counts = levels[number].setdefault(own, {})
            character = captions[row][at]
            if character not in counts:
                going.append((row, at, 1))
            counts[character] = counts.get(character, 0) + weight
        items = going

    def estimate(caption: str, at: int, template: int) -> NDArray[np.float64]:
        made = np.full(len(ALPHABET), 1 / len(ALPHABET))
        before: object = None
        for number, context in enumerate(chain):
            own = plain_context(context, caption, at, template)
            counts = levels[number].get(own)
            if own == before or counts is None:
                before = own
                continue
            before = own
            off = {character: float(discounts[number][min(count, 3)]) for character, count in counts.items()}
            total = sum(counts.values())
            made = made * (sum(off.values()) / total)
            for character, count in counts.items():
                made[ALPHABET.characters.index(character)] += (count - off[character]) / total
        return made

    return estimate


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("general_bytes", [0, 12_000_000])
def test_a_chain_is_interpolated_kneser_ney(name: str, general_bytes: int) -> None:
    counted = Chain.count(text_of(CAPTIONS), CHAINS[name], len(ALPHABET))
    chain = Chain(counted.contexts, counted.levels, len(ALPHABET), general_bytes=general_bytes)
    expected = definition(CHAINS[name], CAPTIONS, [level.discounts for level in chain.levels])
    new = ["one does such wow|", "is not|meme"]
    found = chain.estimate(text_of(new).stretches).probabilities
    places = [(caption, at, 1 + row) for row, caption in enumerate(new) for at in range(len(caption))]
    assert found == pytest.approx(np.stack([expected(*place) for place in places]), abs=1e-5)
    assert found.sum(axis=1) == pytest.approx(1)


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("row", [0, 2, 3, 5])
def test_leaving_a_caption_out_is_counting_without_it(name: str, row: int) -> None:
    chain = Chain.count(text_of(CAPTIONS), CHAINS[name], len(ALPHABET))
    text = text_of(CAPTIONS)
    others = [at for at in range(len(CAPTIONS)) if at != row]
    without = Chain.count(text.captions(np.array(others)), CHAINS[name], len(ALPHABET))
    levels = [
        Level(less.keys, less.first, less.symbols, less.counts, level.discounts)
        for less, level in zip(without.levels, chain.levels, strict=True)
    ]
    exact = Chain(chain.contexts, chain.levels, len(ALPHABET), general_bytes=0)
    expected = Chain(chain.contexts, levels, len(ALPHABET), general_bytes=0)
    own = text.captions(np.array([row]))
    # Beside other captions, whose counts stay.
    block = text.captions(np.array([row, 1, 4]))
    found = exact.estimate_left_out(block)
    assert found.probabilities[: len(own)] == pytest.approx(expected.estimate(own.stretches).probabilities, abs=1e-5)
    assert found.depth[: len(own)].tolist() == expected.estimate(own.stretches).depth.tolist()
    assert not np.allclose(found.probabilities[: len(own)], exact.estimate(own.stretches).probabilities)


@pytest.fixture(scope="module")
def counts() -> Counts:
    return Counts.fit(text_of(CAPTIONS))


def test_decoding_gives_the_estimates_of_the_text(counts: Counts) -> None:
    text = text_of(["one does such|", "wow|"], [2, UNKNOWN_TEMPLATE])
    expected = counts.log_probs(text)
    assert np.exp(expected).sum(axis=1) == pytest.approx(1, abs=1e-5)
    state = counts.begin(text.templates)
    for at in range(4):
        assert counts.log_probs_of(state) == pytest.approx(expected[text.starts[:-1] + at], abs=1e-5)
        state = state.read(text.characters[text.starts[:-1] + at].astype(np.int64))
    longer = state.select(np.array([0, 0]))
    assert counts.log_probs_of(longer) == pytest.approx(expected[[4, 4]], abs=1e-5)


def test_a_caption_left_out_is_less_likely_than_one_that_was_counted(counts: Counts) -> None:
    text = text_of(["x all the things|"], [1])
    own = np.arange(len(text)), text.characters.astype(np.int64) - 1
    inside = counts.log_probs(text)[own].sum()
    # Four captions are equal; one of them is left out.
    assert counts.log_probs(text, leave_one_out=True)[own].sum() < inside


def test_counts_are_stored_and_restored(counts: Counts, tmp_path: Path) -> None:
    content = files(counts)
    assert set(content) == set(FILES)
    for name, value in content.items():
        write_content(tmp_path / name, value)
    again = restored({name: read_content(tmp_path / name) for name in FILES}, SPELLING)
    text = text_of(["one does such|", "much meme|"])
    assert again.log_probs(text).tolist() == counts.log_probs(text).tolist()


@pytest.mark.parametrize("name", FILES)
def test_counts_without_a_part_are_refused(counts: Counts, name: str) -> None:
    content = files(counts)
    del content[name]
    with pytest.raises(KeyError):
        restored(content, SPELLING)


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith(".npy")])
def test_counts_with_a_wrong_array_are_refused(name: str) -> None:
    whole = files(Counts.fit(text_of(["one|"] * 300)))
    for wrong in (np.append(whole[name], whole[name]), whole[name].astype(np.float64), whole[name][np.newaxis]):
        with pytest.raises(ValueError, match="its "):
            restored({**whole, name: wrong}, SPELLING)


def test_large_counts_are_kept() -> None:
    text = text_of(["one|"] * 300, [1] * 300)
    counts = Counts.fit(text)
    again = restored(files(counts), SPELLING)
    assert max(int(level.counts.max(initial=0)) for chain in again.chains for level in chain.levels) == 300


def test_a_caption_that_occurs_once_is_forgotten_if_asked() -> None:
    text = text_of([*CAPTIONS, "nothing like it|"])
    whole = Chain.count(text, CHAINS["text"], len(ALPHABET))
    less = Chain.count(text, CHAINS["text"], len(ALPHABET), singles=3)
    for number, (kept, every) in enumerate(zip(less.levels, whole.levels, strict=True)):
        assert (len(kept.keys) < len(every.keys)) == (number >= 3)
    seen = text_of(["one does not simply|"])
    assert less.estimate(seen.stretches).depth.tolist() == whole.estimate(seen.stretches).depth.tolist()
