"""The index: matches among many sketches, growth and removal."""

from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image as Pillow

from memeloom.catalog.images import Pixels
from memeloom.serve.drawing import draw_caption
from memeloom.templates.index import SketchIndex
from memeloom.templates.sketch import Sketch, sketch

Draw = Callable[[int], Pillow.Image]
COUNT = 1800  # more than the first tables have room for


def grey(picture: Pillow.Image) -> Pixels:
    return np.asarray(picture.convert("L"), np.uint8)


def meme(draw: Draw, seed: int) -> Sketch:
    return sketch(grey(draw_caption(draw(seed), (), ["WORDS ABOVE IT", "AND MORE WORDS"])))


@pytest.fixture
def few(draw: Draw) -> SketchIndex:
    index = SketchIndex(0.4)
    assert all(index.add(f"t{seed}", sketch(grey(draw(seed)))) for seed in range(20))
    return index


def keys(index: SketchIndex, asked: Sketch, most: int = 1) -> list[str]:
    return [match.key for match in index.find(asked, most)]


def test_memes_find_their_templates(few: SketchIndex, draw: Draw) -> None:
    assert len(few) == 20
    for seed in range(20):
        assert keys(few, meme(draw, seed)) == [f"t{seed}"]
    assert keys(few, meme(draw, 77)) == []


def test_a_mirrored_meme_says_so(few: SketchIndex, draw: Draw) -> None:
    (match,) = few.find(meme(draw, 3).mirrored)
    assert (match.key, match.placing.mirrored) == ("t3", True)
    assert np.abs(match.placing.affine - np.eye(2, 3)).max() < 0.02
    (match,) = few.find(meme(draw, 3))
    assert not match.placing.mirrored


def test_panels_are_all_found_if_asked_for(few: SketchIndex, draw: Draw) -> None:
    both = sketch(np.vstack([grey(draw(5)), grey(draw(6))]))
    assert sorted(keys(few, both, 5)) == ["t5", "t6"]
    assert len(keys(few, both)) == 1


def test_removed_sketches_are_not_found(few: SketchIndex, draw: Draw) -> None:
    few.remove("t4")
    few.remove("t4")
    few.remove("never there")
    assert "t4" not in few
    assert len(few) == 19
    assert keys(few, meme(draw, 4)) == []
    assert keys(few, meme(draw, 5)) == ["t5"]


def test_adding_under_a_key_again_replaces(few: SketchIndex, draw: Draw) -> None:
    few.add("t4", sketch(grey(draw(44))))
    assert len(few) == 20
    assert keys(few, meme(draw, 4)) == []
    assert keys(few, meme(draw, 44)) == ["t4"]
    assert not few.add("t4", sketch(np.zeros((100, 100), np.uint8)))
    assert "t4" not in few


def test_plain_pictures_are_refused_and_find_nothing(few: SketchIndex) -> None:
    plain = sketch(np.full((300, 300), 200, np.uint8))
    assert not few.add("plain", plain)
    assert keys(few, plain, 5) == []
    assert keys(SketchIndex(0.4), plain) == []


def test_noise_finds_nothing(few: SketchIndex) -> None:
    random = np.random.default_rng(5)
    for _ in range(5):
        assert keys(few, sketch(random.integers(0, 256, (300, 400), np.uint8)), 3) == []


def test_an_empty_index_answers(draw: Draw) -> None:
    assert SketchIndex(0.4).find(meme(draw, 1)) == []


def turned(base: list[Pixels], number: int) -> Pixels:
    """Parts of a few pictures, turned: cheap, and all different."""
    random = np.random.default_rng(number)
    picture = np.rot90(base[number % len(base)], number // len(base) % 4)
    top, left = (int(random.integers(0, side // 3)) for side in picture.shape)
    return np.ascontiguousarray(picture[top : top + 250, left : left + 250])


def test_it_grows_beyond_its_first_tables_and_finds_first_and_last(draw: Draw) -> None:
    base = [grey(draw(seed)) for seed in range(100, 140)]
    index = SketchIndex(0.4)
    index.add("first", sketch(grey(draw(1))))
    small = index.nbytes
    for number in range(COUNT):
        index.add(f"s{number}", sketch(turned(base, number)))
    index.add("last", sketch(grey(draw(2))))
    assert index.nbytes > small
    assert keys(index, meme(draw, 1)) == ["first"]
    assert keys(index, meme(draw, 2)) == ["last"]


def test_removed_sketches_free_their_room(draw: Draw) -> None:
    """UnknownMemes come and go for months: neither memory nor what is found may change by that."""
    base = [sketch(turned([grey(draw(seed)) for seed in range(100, 104)], number)) for number in range(16)]
    index = SketchIndex(0.4)
    index.add("kept", sketch(grey(draw(1))))
    for number in range(100):
        index.add(f"s{number}", base[number % 16])
    size = index.nbytes
    for number in range(100, COUNT):
        index.add(f"s{number}", base[number % 16])
        index.remove(f"s{number - 100}")
    assert index.nbytes == size
    assert len(index) == 101
    assert keys(index, meme(draw, 1)) == ["kept"]
    for number in range(COUNT - 100, COUNT):
        index.remove(f"s{number}")
    assert keys(index, base[0]) == []


def test_copies_of_one_picture_do_not_hide_it(draw: Draw) -> None:
    index = SketchIndex(0.4)
    for number in range(60):
        index.add(f"copy{number}", meme(draw, 7))
    assert len(keys(index, sketch(grey(draw(7))), 3)) == 3


def test_matches_do_not_depend_on_the_order(draw: Draw) -> None:
    made = [sketch(grey(draw(seed))) for seed in range(40)]
    orders = [range(40), range(39, -1, -1)]
    answers = []
    for order in orders:
        index = SketchIndex(0.4)
        for seed in order:
            index.add(f"t{seed}", made[seed])
        answers.append([keys(index, meme(draw, seed)) for seed in range(40)])
    assert answers[0] == answers[1] == [[f"t{seed}"] for seed in range(40)]
