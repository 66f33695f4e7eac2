"""One picture from many that show it, each with words of its own: what most of them agree on, pixel by pixel.

Words stand in the same place in most memes of a template, so a plain median fails where more than half have ink.
So pixels known to be words do not count, of the others the colour with the most company is sought (a mode, not a
middle), and what is near to it is averaged: compression differs from meme to meme, and so is averaged out.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from memeloom.catalog.images import Pixels

_STRIP = 48  # lines at a time
_ELECTORS = 24  # pictures among which the company of a colour is counted
_COMPANY, _NEAR = 16, 20  # of 255: two pixels that show the same, and one that is averaged
_LEAST_COMPANY = 2
# Nearly white and nearly black are what most words are written in: they need more company than other colours.
_LIGHT, _DARK, _DOUBT = 232, 24, 0.6


@dataclass(frozen=True)
class Layer:
    """A picture laid onto the common frame.

    pixels: (height, width, 3). shown: (height, width), 0 where it shows nothing of the common picture: words, outside.
    weight: how much it counts; the sharper the more.
    """

    pixels: Pixels
    shown: Pixels
    weight: float = 1.0


@dataclass(frozen=True)
class Merged:
    """What layers have in common.

    pixels: (height, width, 3). support: (height, width) float32, the layers that show that colour; 0: nobody knows.
    """

    pixels: Pixels
    support: NDArray[np.float32]


def merge(layers: Sequence[Layer]) -> Merged:
    """The picture that most of `layers`, all of one size, agree on. Memory beside the layers is bounded."""
    height, width = layers[0].shown.shape
    pixels, support = np.zeros((height, width, 3), np.uint8), np.zeros((height, width), np.float32)
    for lines in _strips(height):
        values = np.stack([layer.pixels[lines] for layer in layers])
        shown = np.stack([layer.shown[lines] > 0 for layer in layers])
        centre, company = _densest(values, shown, layers)
        weights = np.array([layer.weight for layer in layers], np.float32)
        mean, near = _mean_near(values, shown, centre, weights)
        pixels[lines] = mean
        support[lines] = np.where(company >= min(_LEAST_COMPANY, len(layers)), near, 0)
    return Merged(pixels, support)


def plain_median(layers: Sequence[Layer]) -> Pixels:
    """The median of each pixel over all layers that reach there, words or not: what others do."""
    return np.asarray(np.median(np.stack([layer.pixels for layer in layers]), axis=0), np.uint8)


def _strips(height: int) -> Iterator[slice]:
    for top in range(0, height, _STRIP):
        yield slice(top, min(top + _STRIP, height))


def _densest(values: Pixels, shown: NDArray[np.bool_], layers: Sequence[Layer]) -> tuple[Pixels, NDArray[np.float32]]:
    """The colour that most layers are near to, (lines, width, 3), and how many those are."""
    order = sorted(range(len(layers)), key=lambda number: -layers[number].weight)[:_ELECTORS]
    best, most = np.full((2, *shown.shape[1:]), -1.0, np.float32)
    centre = np.zeros(values.shape[1:], np.uint8)
    for one in order:
        company = np.zeros(shown.shape[1:], np.float32)
        for other in order:
            difference = cv2.absdiff(values[one], values[other])
            near = cv2.inRange(difference, (0, 0, 0), (_COMPANY,) * 3) > 0
            company += near & shown[other]
        company[~shown[one]] = 0
        believed = np.where(_may_be_ink(values[one]), _DOUBT, 1) * company
        better = believed > most
        most[better], best[better] = believed[better], company[better]
        centre[better] = values[one][better]
    return centre, best


def _may_be_ink(pixels: Pixels) -> NDArray[np.bool_]:
    light = np.asarray(cv2.inRange(pixels, (_LIGHT,) * 3, (255,) * 3)) > 0
    return light | (np.asarray(cv2.inRange(pixels, (0,) * 3, (_DARK,) * 3)) > 0)


def _mean_near(
    values: Pixels, shown: NDArray[np.bool_], centre: Pixels, weights: NDArray[np.float32]
) -> tuple[Pixels, NDArray[np.float32]]:
    """The mean of what is near `centre`, and how many layers that is; twice, as the first mean is a better centre."""
    near = np.zeros(shown.shape[1:], np.float32)
    for _ in range(2):
        total, near = np.zeros(centre.shape, np.float32), np.zeros(shown.shape[1:], np.float32)
        weight = np.zeros(shown.shape[1:], np.float32)
        for value, there, share in zip(values, shown, weights, strict=True):
            inlier = (cv2.inRange(cv2.absdiff(value, centre), (0, 0, 0), (_NEAR,) * 3) > 0) & there
            near += inlier
            counted = inlier * share
            weight += counted
            total += value * counted[:, :, None]
        mean = np.rint(total / np.maximum(weight, 1e-6)[:, :, None]).astype(np.uint8)
        centre = np.where(weight[:, :, None] > 0, mean, centre)
    return centre, near
