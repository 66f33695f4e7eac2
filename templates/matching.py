"""Finds the most similar patch beside a hole for each patch that has a part of it.

A small picture is searched completely, a larger one near the matches of the smaller. What is compared: principal
components of a patch, the roughness there, the place, and the colour that diffusion gives.
"""

from dataclasses import dataclass
from functools import cached_property

import cv2
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from memeloom.templates.diffusion import Floats

Places = NDArray[np.int64]  # of pixels: row * width + column

RADIUS = 3  # of a patch, in pixels
SIDE = 2 * RADIUS + 1
_COMPONENTS, _SAMPLE = 24, 3000  # of a patch, and the patches that they are computed from
ROUGHNESS, _SMOOTH, _NEAR = 10.0, 5.0, 1.0  # weights against one colour of a patch; _NEAR is for a pixel's distance
_MAX_PATCHES = 500_000
_PAIRS = 40_000_000  # of patches that are compared completely
_NEIGHBOURS = (0, 1), (1, 0), (0, -1), (-1, 0), (0, 4), (4, 0), (0, -4), (-4, 0)
_JUMPS = 1, 1, 2, 8  # pixels from a match within which a better one is tried, at random


@dataclass(frozen=True)
class Level:
    """The picture at one scale. smooth: filled by diffusion; rough: two channels; pixels: of the whole, in one."""

    smooth: Floats
    rough: Floats
    known: NDArray[np.bool_]
    pixels: int

    @property
    def width(self) -> int:
        """Return the pixels of a row."""
        return int(self.known.shape[1])

    @cached_property
    def image(self) -> Floats:
        """Return colours and roughness, (height, width, 5)."""
        return np.dstack([self.smooth, self.rough])

    @cached_property
    def _near(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        inside = np.zeros(self.known.shape, np.bool_)
        inside[RADIUS:-RADIUS, RADIUS:-RADIUS] = True
        return inside, cv2.dilate((~self.known).astype(np.uint8), np.ones((SIDE, SIDE), np.uint8)) > 0

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
        """Return the source closest to each pixel."""
        return _nearest(self.rank.reshape(self.known.shape) >= 0)

    @cached_property
    def described(self) -> Floats:
        """Return the features of the sources."""
        return self.describe(self.image, self.sources)

    @cached_property
    def _basis(self) -> Floats:
        sample = patches(self.image, self.sources[:: max(1, len(self.sources) // _SAMPLE)])
        vectors = np.linalg.eigh(np.cov(sample, rowvar=False))[1]
        return np.ascontiguousarray(vectors[:, -_COMPONENTS:], np.float32)

    def describe(self, image: Floats, places: Places) -> Floats:
        """Return features of patches of `image`; the squared distance of two is that of the patches and the rest."""
        base = cv2.blur(self.smooth, (SIDE, SIDE)).reshape(-1, 3)
        step = 20_000
        parts = [patches(image, places[at : at + step]) @ self._basis for at in range(0, len(places), step)]
        place = np.stack(np.divmod(places, self.width), axis=1)
        rough = image.reshape(-1, 5)[places, 3:]
        return np.hstack(
            [np.vstack(parts), _SMOOTH * base[places], ROUGHNESS * rough, _NEAR * self.pixels * place],
            dtype=np.float32, casting="same_kind",
        )  # fmt: skip


@dataclass(frozen=True)
class Matches:
    """The best source of each target of a level, and their squared distance."""

    level: Level
    sources: Places
    distances: Floats


def match(level: Level, filled: Floats, before: Matches | None, turn: int) -> Matches:
    """Match the targets of a level as it is `filled`; `before`: of the last turn, or of the level of half the size."""
    targets, sources = level.targets, level.sources
    found = None if before is None else before.sources if before.level is level else _grown(level, before)
    if found is not None and len(targets) + len(sources) > _MAX_PATCHES:
        return Matches(level, found, np.zeros(len(targets), np.float32))
    wanted = level.describe(filled, targets)
    pairs = len(targets) * len(sources)
    if found is None or pairs <= _PAIRS:
        step = -(-pairs // _PAIRS)
        found, distances = _search(level.described[::step], wanted)
        return Matches(level, sources[::step][found], distances)
    return Matches(level, *_improved(level, wanted, found, turn))


def _search(sources: Floats, targets: Floats) -> tuple[Places, Floats]:
    """Return the number of the source closest to each target, and their squared distance."""
    norms, turned = (sources**2).sum(axis=1) / 2, np.ascontiguousarray(sources.T)
    found, step = np.empty(len(targets), np.int64), max(1, 4_000_000 // len(sources))
    room = np.empty((min(step, len(targets)), len(sources)), np.float32)
    for at in range(0, len(targets), step):
        some = targets[at : at + step]
        far = np.matmul(some, turned, out=room[: len(some)])
        found[at : at + step] = np.subtract(norms, far, out=far).argmin(axis=1)
    return found, _distances(targets, sources[found])


def _grown(level: Level, before: Matches) -> Places:
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


def _improved(level: Level, wanted: Floats, found: Places, turn: int) -> tuple[Places, Floats]:
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


def patches(image: Floats, places: Places) -> Floats:
    """Return the colours of the patches around pixels, (places, side * side * 3)."""
    y, x = np.divmod(places, image.shape[1])
    # One plane a colour: the pixels of a row are copied at once.
    planes = np.ascontiguousarray(image[:, :, :3].transpose(2, 0, 1))
    windows = sliding_window_view(planes, (SIDE, SIDE), axis=(1, 2)).transpose(1, 2, 0, 3, 4)
    return np.asarray(windows[y - RADIUS, x - RADIUS].reshape(len(places), -1), np.float32)


def _nearest(wanted: NDArray[np.bool_]) -> Places:
    """Return for each pixel the nearest one that is wanted."""
    _, labels = cv2.distanceTransformWithLabels(
        (~wanted).astype(np.uint8), cv2.DIST_L2, 5, labelType=cv2.DIST_LABEL_PIXEL
    )
    places = np.zeros(int(labels.max()) + 1, np.int64)
    places[labels[wanted]] = np.flatnonzero(wanted)
    return np.asarray(places[labels.reshape(-1)], np.int64)
