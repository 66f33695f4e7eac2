"""Fills holes in textured pictures with parts of their surroundings.

Patches at the hole are matched with the most similar ones beside it, and the hole is set to what these agree on, in
turns and from coarse to fine (Wexler, Shechtman and Irani, "Space-time completion of video", 2007; Newson et al.,
"Non-local patch-based image inpainting", 2017). A reduced picture is searched completely, a larger one near the matches
of the smaller. What is compared: principal components of a patch, the roughness there, the place, and the colour that
diffusion gives.
"""

from dataclasses import dataclass
from functools import cached_property

import cv2
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from memeloom.catalog.images import Pixels
from memeloom.templates.diffusion import Floats, diffuse

Places = NDArray[np.int64]  # of pixels: row * width + column

_RADIUS = 3  # of a patch, in pixels
_SIDE = 2 * _RADIUS + 1
_SCALES = 4
_COMPONENTS, _SAMPLE = 24, 3000  # of a patch, and the patches that they are computed from
_ROUGHNESS, _SMOOTH, _NEAR = 10.0, 5.0, 0.5  # weights against one colour of a patch; _NEAR is for a pixel's distance
_FIRST_TURNS, _TURNS, _LAST_TURNS = 6, 3, 2  # at the smallest scale, between, and at the largest
_MIN_SOURCES, _MAX_PATCHES = 50, 500_000
_PAIRS = 40_000_000  # of patches that are compared completely
_PEELED = 6000  # patches that the first guess is taken from
_GUESSED = 0.1  # weight of pixels not known in the first guess
_FADE = 1.15  # by which a patch counts less, per pixel from the hole's edge
_NEIGHBOURS = (0, 1), (1, 0), (0, -1), (-1, 0), (0, 4), (4, 0), (0, -4), (-4, 0)
_JUMPS = 1, 1, 2, 8  # pixels from a match within which a better one is tried, at random


def fill_from_patches(picture: Pixels, mask: Pixels) -> Pixels:
    """Fill a (height, width, 3) picture where `mask` is not 0; the rest stays bit for bit. Some of it must be known."""
    known = mask == 0
    levels = diffuse(picture.astype(np.float32), known)
    rough = _roughness(picture, known)
    count = next((n for n, (_, seen) in enumerate(levels) if seen.all()), len(levels))
    filled: Floats | None = None
    matches: _Matches | None = None
    for number in reversed(range(min(count, _SCALES))):
        smooth, seen = levels[number]
        size = seen.shape[::-1]
        reduced = np.asarray(cv2.resize(rough, size, interpolation=cv2.INTER_AREA), np.float32)
        level = _Level(smooth, reduced, seen, 2**number)
        if len(level.sources) < _MIN_SOURCES:
            continue
        turns = _LAST_TURNS if number == 0 else _FIRST_TURNS if filled is None else _TURNS
        if filled is None:
            filled = _peel(level)
        else:
            filled = np.where(seen[:, :, None], level.image, cv2.resize(filled, size, interpolation=cv2.INTER_CUBIC))
        for turn in range(turns):
            matches = _match(level, filled, matches, turn)
            filled = _vote(level, filled, matches, best=number == 0 and turn == turns - 1)
    if filled is None or filled.shape[:2] != mask.shape:
        filled = levels[0][0]
    return np.where(known[:, :, None], picture, np.rint(filled[:, :, :3])).clip(0, 255).astype(np.uint8)


@dataclass(frozen=True)
class _Level:
    """The picture at one scale. smooth: filled by diffusion; rough: two channels; pixels: of the whole, in one."""

    smooth: Floats
    rough: Floats
    known: NDArray[np.bool_]
    pixels: int

    @property
    def width(self) -> int:
        return int(self.known.shape[1])

    @cached_property
    def image(self) -> Floats:
        """Return colours and roughness, (height, width, 5)."""
        return np.dstack([self.smooth, self.rough])

    @cached_property
    def _near(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        inside = np.zeros(self.known.shape, np.bool_)
        inside[_RADIUS:-_RADIUS, _RADIUS:-_RADIUS] = True
        return inside, cv2.dilate((~self.known).astype(np.uint8), np.ones((_SIDE, _SIDE), np.uint8)) > 0

    @cached_property
    def sources(self) -> Places:
        """Return the middles of patches without a hole."""
        inside, near = self._near
        return np.flatnonzero(inside & ~near)

    @cached_property
    def targets(self) -> Places:
        """Return the middles of patches with a part of the hole."""
        inside, near = self._near
        return np.flatnonzero(inside & near)

    @cached_property
    def rank(self) -> Places:
        """Return each pixel's number among the sources, -1 without."""
        rank = np.full(self.known.size, -1, np.int64)
        rank[self.sources] = np.arange(len(self.sources))
        return rank

    @cached_property
    def nearest_source(self) -> Places:
        return _nearest(self.rank.reshape(self.known.shape) >= 0)

    @cached_property
    def described(self) -> Floats:
        """Return the features of the sources."""
        return self.describe(self.image, self.sources)

    @cached_property
    def _basis(self) -> Floats:
        sample = _patches(self.image, self.sources[:: max(1, len(self.sources) // _SAMPLE)])
        vectors = np.linalg.eigh(np.cov(sample, rowvar=False))[1]
        return np.ascontiguousarray(vectors[:, -_COMPONENTS:], np.float32)

    def describe(self, image: Floats, places: Places) -> Floats:
        """Return features of patches of `image`; the squared distance of two is that of the patches and the rest."""
        base = cv2.blur(self.smooth, (_SIDE, _SIDE)).reshape(-1, 3)
        step = 20_000
        parts = [_patches(image, places[at : at + step]) @ self._basis for at in range(0, len(places), step)]
        place = np.stack(np.divmod(places, self.width), axis=1)
        rough = image.reshape(-1, 5)[places, 3:]
        return np.hstack(
            [np.vstack(parts), _SMOOTH * base[places], _ROUGHNESS * rough, _NEAR * self.pixels * place],
            dtype=np.float32, casting="same_kind",
        )  # fmt: skip


@dataclass(frozen=True)
class _Matches:
    """The best source of each target of a level, and their squared distance."""

    level: _Level
    sources: Places
    distances: Floats


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


def _patches(image: Floats, places: Places) -> Floats:
    """Return the colours of the patches around pixels, (places, side * side * 3)."""
    y, x = np.divmod(places, image.shape[1])
    windows = sliding_window_view(image[:, :, :3], (_SIDE, _SIDE), axis=(0, 1))
    return np.asarray(windows[y - _RADIUS, x - _RADIUS].reshape(len(places), -1), np.float32)


def _peel(level: _Level) -> Floats:
    """Return the level filled from the hole's edge inwards, each pixel from the patch that suits what is known."""
    sources = level.sources[:: max(1, len(level.sources) // _PEELED)]
    colours = _patches(level.image, sources)
    squares, colours = np.ascontiguousarray((colours**2).T), np.ascontiguousarray(colours.T)
    rough = _ROUGHNESS * level.image.reshape(-1, 5)[sources, 3:]
    frame = (_RADIUS, _RADIUS), (_RADIUS, _RADIUS)
    framed = np.pad(level.image, (*frame, (0, 0)), "edge")
    seen = np.pad(level.known.astype(np.float32), frame)
    inside = slice(_RADIUS, -_RADIUS), slice(_RADIUS, -_RADIUS)
    while not seen[inside].all():
        ring = np.flatnonzero((cv2.dilate(seen, np.ones((3, 3), np.uint8)) > 0)[inside] & (seen[inside] == 0))
        y, x = np.divmod(ring, level.width)
        for at in range(0, len(ring), 500):
            part = slice(at, at + 500)
            middles = (y[part] + _RADIUS) * framed.shape[1] + x[part] + _RADIUS
            weights = sliding_window_view(seen, (_SIDE, _SIDE))[y[part], x[part]].reshape(-1, _SIDE**2)
            weights = np.tile(np.maximum(weights, _GUESSED), (1, 3))
            costs = weights @ squares - 2 * (weights * _patches(framed, middles)) @ colours
            costs *= weights.shape[1] / weights.sum(axis=1, keepdims=True)
            costs += (rough**2).sum(axis=1) - 2 * _ROUGHNESS * framed.reshape(-1, 5)[middles, 3:] @ rough.T
            framed.reshape(-1, 5)[middles] = level.image.reshape(-1, 5)[sources[costs.argmin(axis=1)]]
        seen[y + _RADIUS, x + _RADIUS] = 1
    return np.ascontiguousarray(framed[inside])


def _match(level: _Level, filled: Floats, before: _Matches | None, turn: int) -> _Matches:
    targets, sources = level.targets, level.sources
    found = None if before is None else before.sources if before.level is level else _grown(level, before)
    if found is not None and len(targets) + len(sources) > _MAX_PATCHES:
        return _Matches(level, found, np.zeros(len(targets), np.float32))
    wanted = level.describe(filled, targets)
    pairs = len(targets) * len(sources)
    if found is None or pairs <= _PAIRS:
        step = -(-pairs // _PAIRS)
        found, distances = _search(level.described[::step], wanted)
        return _Matches(level, sources[::step][found], distances)
    return _Matches(level, *_improved(level, wanted, found, turn))


def _search(sources: Floats, targets: Floats) -> tuple[Places, Floats]:
    """Return the number of the source closest to each target, and their squared distance."""
    norms, turned = (sources**2).sum(axis=1) / 2, np.ascontiguousarray(sources.T)
    found, step = np.empty(len(targets), np.int64), max(1, 4_000_000 // len(sources))
    for at in range(0, len(targets), step):
        found[at : at + step] = (norms - targets[at : at + step] @ turned).argmin(axis=1)
    return found, _distances(targets, sources[found])


def _grown(level: _Level, before: _Matches) -> Places:
    """Return the matches of the level of half the size, at this one's targets."""
    height, width = before.level.known.shape
    matched = np.zeros(before.level.known.size, np.int64)
    matched[before.level.targets] = before.sources
    is_target = np.zeros((height, width), np.bool_)
    is_target.reshape(-1)[before.level.targets] = True
    y, x = np.divmod(level.targets, level.width)
    half = np.minimum(y // 2, height - 1) * width + np.minimum(x // 2, width - 1)
    near = _nearest(is_target)[half]
    y_near, x_near = np.divmod(near, width)
    y_match, x_match = np.divmod(matched[near], width)
    down, right = 2 * (y_match - y_near), 2 * (x_match - x_near)
    y, x = (y + down).clip(0, level.known.shape[0] - 1), (x + right).clip(0, level.width - 1)
    return np.asarray(level.nearest_source[y * level.width + x], np.int64)


def _improved(level: _Level, wanted: Floats, found: Places, turn: int) -> tuple[Places, Floats]:
    """Return better matches: those of neighbours, moved along, and others near (Barnes et al., "PatchMatch", 2009)."""
    random = np.random.default_rng(turn)
    found = found.copy()
    distances = _distances(wanted, level.described[level.rank[found]])
    y, x = np.divmod(level.targets, level.width)
    matched = np.full(level.known.size, -1, np.int64)

    def consider(places: Places) -> None:
        ranks = np.where((places >= 0) & (places < level.rank.size), level.rank.take(places, mode="clip"), -1)
        tried = np.flatnonzero((ranks >= 0) & (places != found))
        far = _distances(wanted[tried], level.described[ranks[tried]])
        better = far < distances[tried]
        found[tried[better]], distances[tried[better]] = places[tried[better]], far[better]

    for down, right in _NEIGHBOURS:
        matched[level.targets] = found
        there = (y + down).clip(0, level.known.shape[0] - 1) * level.width + (x + right).clip(0, level.width - 1)
        consider(np.where(matched[there] >= 0, matched[there] - down * level.width - right, -1))
    for most in _JUMPS:
        jumps = random.integers(-most, most + 1, (2, len(found)))
        consider(found + jumps[0] * level.width + jumps[1])
    return found, distances


def _distances(some: Floats, others: Floats) -> Floats:
    difference = some - others
    return np.asarray(np.einsum("ij,ij->i", difference, difference), np.float32)


def _vote(level: _Level, filled: Floats, matches: _Matches, *, best: bool) -> Floats:
    """Set the hole to the weighted mean of what the matched patches show there, or to what the best of them shows."""
    hole = ~level.known
    y, x = np.divmod(level.targets, level.width)
    matched = np.zeros([side + 2 * _RADIUS for side in hole.shape], np.int64)
    weights = np.zeros(matched.shape, np.float32)
    matched[y + _RADIUS, x + _RADIUS] = matches.sources
    inward = cv2.distanceTransform(hole.astype(np.uint8), cv2.DIST_L2, 3)[y, x]
    spread = 2 * max(float(np.quantile(matches.distances, 0.75)), 1.0)
    weights[y + _RADIUS, x + _RADIUS] = (np.exp(-matches.distances / spread) + 1e-6) * _FADE**-inward
    y, x = np.nonzero(hole)
    values = filled.reshape(-1, 5)
    total, weight = np.zeros((len(y), 5), np.float32), np.zeros(len(y), np.float32)
    for down in range(-_RADIUS, _RADIUS + 1):
        for right in range(-_RADIUS, _RADIUS + 1):
            patch = y - down + _RADIUS, x - right + _RADIUS
            one = weights[patch]
            shown = values[np.where(one > 0, matched[patch] + down * level.width + right, 0)]
            if best:
                better = one > weight
                total[better], weight[better] = one[better, None] * shown[better], one[better]
            else:
                total += one[:, None] * shown
                weight += one
    voted = filled.copy()
    seen = weight > 0
    voted[y[seen], x[seen]] = total[seen] / weight[seen, None]
    return voted


def _nearest(wanted: NDArray[np.bool_]) -> Places:
    """Return for each pixel the nearest one that is wanted."""
    _, labels = cv2.distanceTransformWithLabels(
        (~wanted).astype(np.uint8), cv2.DIST_L2, 5, labelType=cv2.DIST_LABEL_PIXEL
    )
    places = np.zeros(int(labels.max()) + 1, np.int64)
    places[labels[wanted]] = np.flatnonzero(wanted)
    return np.asarray(places[labels.reshape(-1)], np.int64)
