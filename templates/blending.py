"""Blends parts of a picture where they meet: neighbours change as in the places that they are from.

The screened Poisson equation (Perez et al., "Poisson image editing", 2003; Bhat et al., "GradientShop", 2010), solved
by conjugate gradients.
"""

import numpy as np
from numpy.typing import NDArray

from memeloom.templates.diffusion import Floats

_SCREENED = 0.004  # weight of the colours against that of their changes: seams fade within its inverse root, in pixels
_STEPS = 60  # of conjugate gradients
_CLOSE = 1e-3  # of the first error


def blend(picture: Floats, places: NDArray[np.int64], known: NDArray[np.bool_]) -> Floats:
    """Return a (height, width, channels) picture filled from other places, blended where it is not known.

    places: (height, width), row * width + column of the known pixel that each is from; of a known one, its own.
    """
    values = picture.reshape(-1, picture.shape[2]).take(places, axis=0)
    right = _differences(picture, values, places, known, axis=1)
    down = _differences(picture, values, places, known, axis=0)
    return values + _corrected(right, down, ~known)


def _differences(
    picture: Floats, values: Floats, places: NDArray[np.int64], known: NDArray[np.bool_], axis: int
) -> Floats:
    """Return by how much more values should change to the next one along an axis: as beside their places."""
    step = known.shape[1] if axis == 0 else 1
    colours, seen = picture.reshape(-1, picture.shape[2]), known.reshape(-1)
    ends = slice(None, -1), slice(1, None)
    first, second = (places[end] if axis == 0 else places[:, end] for end in ends)
    total, count = np.zeros((*first.shape, picture.shape[2]), np.float32), np.zeros((*first.shape, 1), np.float32)
    for start, end in ((first, first + step), (second - step, second)):
        inside = (start >= 0) & (end < seen.size)
        one, other = start.clip(0), end.clip(None, seen.size - 1)
        inside = (inside & seen[one] & seen[other])[:, :, None]
        total += np.where(inside, colours.take(other, axis=0) - colours.take(one, axis=0), 0)
        count += inside
    return np.where(count > 0, total / np.maximum(count, 1) - np.diff(values, axis=axis), 0).astype(np.float32)


def _corrected(right: Floats, down: Floats, hole: NDArray[np.bool_]) -> Floats:
    """Return the field, 0 outside of the hole, whose changes are closest to these."""
    inside = hole[:, :, None].astype(np.float32)
    rest = _gathered(right, down) * inside
    found, direction = np.zeros_like(rest), rest
    squared = first = float(np.vdot(rest, rest))
    for _ in range(_STEPS):
        if squared <= _CLOSE**2 * first:
            break
        turned = _gathered(np.diff(direction, axis=1), np.diff(direction, axis=0))
        turned += _SCREENED * direction
        turned *= inside
        step = squared / max(float(np.vdot(direction, turned)), 1e-12)
        found, rest = found + step * direction, rest - step * turned
        before, squared = squared, float(np.vdot(rest, rest))
        direction = rest + squared / before * direction
    return found


def _gathered(right: Floats, down: Floats) -> Floats:
    """Return for each pixel the changes towards it less those away from it."""
    sums = np.zeros((right.shape[0], down.shape[1], right.shape[2]), np.float32)
    sums[:, 1:] += right
    sums[:, :-1] -= right
    sums[1:] += down
    sums[:-1] -= down
    return sums
