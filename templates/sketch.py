"""What is kept of a picture to recognise it by: corners, and a thumbnail to verify with. Some ten kilobytes."""

import io
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import cv2
import numpy as np

from catalog.images import Pixels, decode_grey
from templates.corners import Bits, Points, describe_corners, find_corners, mirror_bits

_VERSION = 1
_SIDE = 160  # square root of the area at which corners are looked for, in pixels
_THUMB_SIDE = 64  # likewise of the thumbnail
_EVEN = 6.0  # a line of pixels whose brightness deviates less belongs to a border
_WIDEST = 0.34  # of the picture's side that a border may take on each
_NARROWEST = 24  # pixels that a picture has on a side at least, however narrow


@dataclass(frozen=True)
class Sketch:
    """A picture without its even borders.

    inset: where it stands in the whole picture: left, top, right, bottom, in fractions of width and height.
    thumb: grey, (height, width), of 4,096 pixels.
    points: (n, 2) float32, x and y of the corners in fractions of width and height without borders.
    bits: (n, 32) uint8, what each corner's surroundings look like.
    """

    inset: tuple[float, float, float, float]
    thumb: Pixels
    points: Points
    bits: Bits

    @cached_property
    def mirrored(self) -> "Sketch":
        """The sketch of the mirrored picture."""
        left, top, right, bottom = self.inset
        return replace(
            self,
            inset=(1 - right, top, 1 - left, bottom),
            thumb=np.ascontiguousarray(self.thumb[:, ::-1]),
            points=np.stack([1 - self.points[:, 0], self.points[:, 1]], axis=1),
            bits=mirror_bits(self.bits),
        )

    def to_bytes(self) -> bytes:
        """For the catalog."""
        stream = io.BytesIO()
        np.savez(stream, version=_VERSION, inset=self.inset, thumb=self.thumb, points=self.points, bits=self.bits)
        return stream.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self | None:
        """What `to_bytes` gave; None if another version of memeloom did."""
        with np.load(io.BytesIO(data)) as found:
            if found["version"] != _VERSION:
                return None
            left, top, right, bottom = (float(edge) for edge in found["inset"])
            return cls((left, top, right, bottom), found["thumb"], found["points"], found["bits"])


def sketch_image(data: bytes, *, max_pixels: int = 50_000_000) -> Sketch:
    """The sketch of the picture in `data`. Raises BadImage."""
    return sketch(decode_grey(data, _SIDE, max_pixels=max_pixels))


def sketch(grey: Pixels) -> Sketch:
    """The sketch of a (height, width) grey picture."""
    # Averaging over whole pixels first is several times faster than one exact step.
    if (factor := int((grey.shape[0] * grey.shape[1]) ** 0.5 / (1.4 * _SIDE))) > 1:
        size = grey.shape[1] // factor, grey.shape[0] // factor
        grey = np.asarray(cv2.resize(grey, size, interpolation=cv2.INTER_AREA), np.uint8)
    height, width = grey.shape
    left, top, right, bottom = _inner(grey)
    inner = _scaled(grey[top:bottom, left:right], _SIDE)
    corners = find_corners(inner)
    return Sketch(
        inset=(left / width, top / height, right / width, bottom / height),
        thumb=_scaled(inner, _THUMB_SIDE),
        points=np.asarray((corners + 0.5) / inner.shape[::-1], np.float32),
        bits=describe_corners(inner, corners),
    )


def _inner(grey: Pixels) -> tuple[int, int, int, int]:
    """Left, top, right and bottom of the picture without even lines of pixels along its edges."""
    light = grey.astype(np.float32)
    edges = []
    for axis in (0, 1):
        uneven = np.flatnonzero(light.std(axis=axis) > _EVEN)
        size = grey.shape[1 - axis]
        most = int(size * _WIDEST)
        first, last = (int(uneven[0]), int(uneven[-1]) + 1) if len(uneven) else (0, size)
        edges.append((min(first, most), max(last, size - most)))
    (left, right), (top, bottom) = edges
    return left, top, right, bottom


def _scaled(grey: Pixels, side: int) -> Pixels:
    scale = side / (grey.shape[0] * grey.shape[1]) ** 0.5
    size = max(_NARROWEST, round(grey.shape[1] * scale)), max(_NARROWEST, round(grey.shape[0] * scale))
    return np.asarray(cv2.resize(grey, size, interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR), np.uint8)
