"""Parts of a picture from different places meet without an edge."""

import numpy as np

from memeloom.templates.blending import blend


def test_a_part_from_a_darker_place_is_as_light_as_its_surroundings() -> None:
    grain = np.random.default_rng(1).normal(0, 5, (40, 60, 1)).astype(np.float32).repeat(3, axis=2)
    picture = grain + np.linspace(40, 160, 60, dtype=np.float32)[None, :, None]
    known = np.ones((40, 60), np.bool_)
    known[10:30, 30:40] = False
    places = np.arange(40 * 60).reshape(40, 60)
    places[10:30, 30:40] -= 25  # 50 darker
    copied = picture.reshape(-1, 3)[places]
    blended = blend(picture, places, known)
    error, copied_error = (np.abs(each - picture)[10:30, 30:40].mean() for each in (blended, copied))
    assert copied_error > 40
    assert error < 10
    assert np.array_equal(blended[known], picture[known])


def test_what_is_copied_with_its_surroundings_stays() -> None:
    tile = np.random.default_rng(2).uniform(0, 255, (40, 20, 3)).astype(np.float32)
    picture = np.concatenate([tile, tile, tile], axis=1)
    known = np.ones((40, 60), np.bool_)
    known[10:30, 25:35] = False
    places = np.arange(40 * 60).reshape(40, 60)
    places[10:30, 25:35] += 20
    assert np.abs(blend(picture, places, known) - picture).max() < 1e-3
