"""Fills holes in textured pictures with parts of their surroundings.

Patches at the hole are matched with the most similar ones beside it, and the hole is set to what these agree on, in
turns and from coarse to fine (Wexler, Shechtman and Irani, "Space-time completion of video", 2007; Newson et al.,
"Non-local patch-based image inpainting", 2017). At last each pixel is from one place, and what is from different places
is blended.
"""

from collections.abc import Iterator

import cv2
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from memeloom.catalog.images import Pixels
from memeloom.templates.blending import blend
from memeloom.templates.diffusion import Floats, diffuse
from memeloom.templates.matching import RADIUS, ROUGHNESS, SIDE, Level, Matches, Places, match, patches

_MIN_SOURCES = 50
_SCALES = 4
_FIRST_TURNS, _TURNS, _LAST_TURNS = 6, 3, 2  # at the smallest scale, between, and at the largest
_PEELED = 6000  # patches that the first guess is taken from
_GUESSED = 0.1  # weight of pixels not known in the first guess
_FADE = 1.15  # by which a patch counts less, per pixel from the hole's edge


def fill_from_patches(picture: Pixels, mask: Pixels) -> Pixels:
    """Fill a (height, width, 3) picture where `mask` is not 0; the rest stays bit for bit. Some of it must be known."""
    known = mask == 0
    levels = diffuse(picture.astype(np.float32), known)
    rough = _roughness(picture, known)
    count = next((n for n, (_, seen) in enumerate(levels) if seen.all()), len(levels))
    colours, filled = levels[0][0], None
    matches: Matches | None = None
    for number in reversed(range(min(count, _SCALES))):
        smooth, seen = levels[number]
        size = seen.shape[::-1]
        reduced = np.asarray(cv2.resize(rough, size, interpolation=cv2.INTER_AREA), np.float32)
        level = Level(smooth, reduced, seen, 2**number)
        if len(level.sources) < _MIN_SOURCES:
            continue
        turns = _LAST_TURNS if number == 0 else _FIRST_TURNS if filled is None else _TURNS
        if filled is None:
            filled = _peel(level)
        else:
            filled = np.where(seen[:, :, None], level.image, cv2.resize(filled, size, interpolation=cv2.INTER_CUBIC))
        for turn in range(turns):
            matches = match(level, filled, matches, turn)
            if number or turn < turns - 1:
                filled = _vote(level, filled, matches)
            else:
                colours = blend(level.smooth, _best(level, matches), known)
    return np.where(known[:, :, None], picture, np.rint(colours)).clip(0, 255).astype(np.uint8)


def _roughness(picture: Pixels, known: NDArray[np.bool_]) -> Floats:
    """Return the mean change from pixel to pixel along rows and columns, around each; where not known, of what is."""
    grey = cv2.cvtColor(picture, cv2.COLOR_BGR2GRAY).astype(np.float32)
    inner = cv2.erode(known.astype(np.uint8), np.ones((3, 3), np.uint8)).astype(np.float32)
    steps = np.dstack([cv2.Sobel(grey, -1, *axis, ksize=1, scale=0.5) for axis in ((1, 0), (0, 1))])
    share = cv2.blur(inner, (9, 9))
    sums = cv2.blur(np.abs(steps) * inner[:, :, None], (9, 9))
    means = np.asarray(sums / np.maximum(share, 1e-6)[:, :, None], np.float32)
    enough = share > 0.05
    return diffuse(means, enough)[0][0] if enough.any() else means


def _peel(level: Level) -> Floats:
    """Return the level filled from the hole's edge inwards, each pixel from the patch that suits what is known."""
    sources = level.sources[:: max(1, len(level.sources) // _PEELED)]
    colours = patches(level.image, sources)
    squares, colours = np.ascontiguousarray((colours**2).T), np.ascontiguousarray(colours.T)
    rough = ROUGHNESS * level.image.reshape(-1, 5)[sources, 3:]
    frame = (RADIUS, RADIUS), (RADIUS, RADIUS)
    framed = np.pad(level.image, (*frame, (0, 0)), "edge")
    seen = np.pad(level.known.astype(np.float32), frame)
    inside = slice(RADIUS, -RADIUS), slice(RADIUS, -RADIUS)
    while not seen[inside].all():
        ring = np.flatnonzero((cv2.dilate(seen, np.ones((3, 3), np.uint8)) > 0)[inside] & (seen[inside] == 0))
        y, x = np.divmod(ring, level.width)
        for at in range(0, len(ring), 500):
            part = slice(at, at + 500)
            middles = (y[part] + RADIUS) * framed.shape[1] + x[part] + RADIUS
            weights = sliding_window_view(seen, (SIDE, SIDE))[y[part], x[part]].reshape(-1, SIDE**2)
            weights = np.tile(np.maximum(weights, _GUESSED), (1, 3))
            costs = weights @ squares - 2 * (weights * patches(framed, middles)) @ colours
            costs *= weights.shape[1] / weights.sum(axis=1, keepdims=True)
            costs += (rough**2).sum(axis=1) - 2 * ROUGHNESS * framed.reshape(-1, 5)[middles, 3:] @ rough.T
            framed.reshape(-1, 5)[middles] = level.image.reshape(-1, 5)[sources[costs.argmin(axis=1)]]
        seen[y + RADIUS, x + RADIUS] = 1
    return np.ascontiguousarray(framed[inside])


def _vote(level: Level, filled: Floats, matches: Matches) -> Floats:
    """Return the level with the hole set to the weighted mean of what the matched patches show there."""
    hole = np.flatnonzero(~level.known)
    values = filled.reshape(-1, 5)
    total, weight = np.zeros((len(hole), 5), np.float32), np.zeros((len(hole), 1), np.float32)
    for one, places in _offers(level, matches):
        shown = values.take(places, axis=0)
        shown *= one[:, None]
        total += shown
        weight += one[:, None]
    voted = filled.copy()
    voted.reshape(-1, 5)[hole] = np.where(weight > 0, total / np.maximum(weight, 1e-12), values[hole])
    return voted


def _best(level: Level, matches: Matches) -> Places:
    """Return the place whose colour each pixel should have: in the hole, what the best patch shows; else its own."""
    hole = np.flatnonzero(~level.known)
    best, weight = np.arange(level.known.size), np.zeros(len(hole), np.float32)
    for one, places in _offers(level, matches):
        better = one > weight
        best[hole[better]], weight[better] = places[better], one[better]
    return best.reshape(level.known.shape)


def _offers(level: Level, matches: Matches) -> Iterator[tuple[Floats, Places]]:
    """Yield for each pixel of a patch the weights and places of what patches show of the hole with that pixel."""
    hole = ~level.known
    framed = level.width + 2 * RADIUS
    y, x = np.divmod(level.targets, level.width)
    matched = np.zeros((hole.shape[0] + 2 * RADIUS) * framed, np.int64)
    weights = np.zeros(matched.shape, np.float32)
    at = (y + RADIUS) * framed + x + RADIUS
    matched[at] = matches.sources
    inward = cv2.distanceTransform(hole.astype(np.uint8), cv2.DIST_L2, 3)[y, x]
    spread = 2 * max(float(np.quantile(matches.distances, 0.75)), 1.0)
    weights[at] = (np.exp(-matches.distances / spread) + 1e-6) * _FADE**-inward
    y, x = np.nonzero(hole)
    for down in range(-RADIUS, RADIUS + 1):
        for right in range(-RADIUS, RADIUS + 1):
            patch = (y - down + RADIUS) * framed + x - right + RADIUS
            one = weights.take(patch)
            yield one, np.where(one > 0, matched.take(patch) + down * level.width + right, 0)
