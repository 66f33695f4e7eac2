"""Merging layers by agreement, also where words cover most of them."""

import tracemalloc

import numpy as np

from memeloom.catalog.images import Pixels
from memeloom.templates.median import Layer, merge
from tests.templates.scenes import as_jpeg, psnr, scene


def noisy(picture: Pixels, seed: int) -> Pixels:
    noise = np.random.default_rng(seed).normal(0, 4, picture.shape)
    return np.clip(picture + noise, 0, 255).astype(np.uint8)


def everywhere(picture: Pixels) -> Pixels:
    return np.full(picture.shape[:2], 255, np.uint8)


def test_the_merge_is_closer_to_the_truth_than_any_layer() -> None:
    truth = scene(1, 200, 150)
    layers = [Layer(noisy(truth, seed), everywhere(truth)) for seed in range(12)]
    assert psnr(merge(layers).pixels, truth) > psnr(layers[0].pixels, truth) + 8


def test_words_in_the_same_place_of_most_layers_are_removed() -> None:
    truth = scene(2, 200, 150)
    layers = []
    for seed in range(10):
        picture = noisy(truth, seed)
        if seed < 7:
            picture[40:80] = (255, 255, 255) if seed != 6 else (0, 0, 0)
        layers.append(Layer(picture, everywhere(truth)))
    # Three of ten show the picture there, one is black and six are white: masks decide.
    for seed in range(4):
        shown = everywhere(truth)
        shown[38:82] = 0
        layers[seed] = Layer(layers[seed].pixels, shown)
    assert psnr(merge(layers).pixels[40:80], truth[40:80]) > 30


def test_covered_places_have_no_support() -> None:
    truth = scene(3, 200, 150)
    shown = everywhere(truth)
    shown[10:20] = 0
    merged = merge([Layer(noisy(truth, seed), shown) for seed in range(4)])
    assert (merged.support[10:20] == 0).all()
    assert (merged.support[25:] >= 3).mean() > 0.99


def test_a_single_vote_is_no_agreement() -> None:
    greys = [np.full((8, 8, 3), value, np.uint8) for value in (0, 60, 120, 180, 240)]
    assert (merge([Layer(grey, everywhere(grey)) for grey in greys]).support == 0).all()


def test_heavier_layers_count_more() -> None:
    truth = scene(4, 200, 150)
    sharp, coarse = noisy(truth, 1), as_jpeg(truth, 10)
    equal = merge([Layer(sharp, everywhere(truth)), Layer(coarse, everywhere(truth))])
    weighed = merge([Layer(sharp, everywhere(truth), 1.0), Layer(coarse, everywhere(truth), 0.05)])
    assert psnr(weighed.pixels, truth) > psnr(equal.pixels, truth)


def test_memory_beside_the_layers_is_bounded() -> None:
    layers = [Layer(np.zeros((2000, 300, 3), np.uint8), np.full((2000, 300), 255, np.uint8)) for _ in range(20)]
    tracemalloc.start()
    merge(layers)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 * 2000 * 300 * 3 / 3  # a third of the layers, result included
