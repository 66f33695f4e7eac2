"""What is kept of a picture to recognise it by: corners; a thumbnail and colours to verify. Some ten kilobytes."""

import struct
import zlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import cv2
import numpy as np
from numpy.typing import NDArray

from memeloom.catalog.images import Pixels
from memeloom.templates.colours import CELLS, Colours, colours_of, no_colours
from memeloom.templates.corners import Bits, Points, describe_corners, find_corners, mirror_bits
from memeloom.templates.decode import decode_small

# Square roots of the areas at which corners are looked for, in pixels. Memes are looked up by the corners of the first
# size among those of all sizes of a template: in a frame, or as a panel of two, it stands in them at half the area.
SIDES = (160, 128, 102, 80)
_THUMB_SIDE = 64  # likewise of the thumbnail
_EVEN = 6.0  # a line of pixels whose brightness deviates less belongs to a border
_WIDEST = 0.34  # of the picture's side that a border may take on each
_THIN = 0.09  # likewise that a line of text may take
_GAP = 0.012  # and the least between such lines
_NARROWEST = 24  # pixels that a picture has on a side at least, however narrow,
_LONGEST = 640  # and at most, however long

_FRONT = struct.Struct(">4sI")  # magic, check
_HEAD = struct.Struct(">4f2H4H")  # inset, height and width of the thumbnail, counts
_MAGIC = b"MLS3"
_COLOUR_BYTES = 2 * CELLS * CELLS
_STEPS = 65_535.0  # of a point's x and y


@dataclass(frozen=True)
class Sketch:
    """A picture without its even borders.

    inset: where it stands in the whole picture: left, top, right, bottom, in fractions of width and height.
    thumb: grey, (height, width), of about 4,096 pixels.
    colours: (8, 8, 2), as `colours_of` has them.
    points: (n, 2) float32, x and y of the corners in fractions of width and height without borders.
    bits: (n, 32) uint8, what each corner's surroundings look like.
    counts: how many of the corners were found at each of `SIDES`; they stand in this order.
    """

    inset: tuple[float, float, float, float]
    thumb: Pixels
    colours: Colours
    points: Points
    bits: Bits
    counts: tuple[int, ...]

    @cached_property
    def mirrored(self) -> "Sketch":
        """The sketch of the mirrored picture."""
        left, top, right, bottom = self.inset
        return replace(
            self,
            inset=(1 - right, top, 1 - left, bottom),
            thumb=np.ascontiguousarray(self.thumb[:, ::-1]),
            colours=np.ascontiguousarray(self.colours[:, ::-1]),
            points=np.stack([1 - self.points[:, 0], self.points[:, 1]], axis=1),
            bits=mirror_bits(self.bits),
        )

    def to_bytes(self) -> bytes:
        """For the catalog."""
        body = b"".join((
            _HEAD.pack(*self.inset, *self.thumb.shape, *self.counts), self.thumb.tobytes(), self.colours.tobytes(),
            np.rint(self.points * _STEPS).astype(">u2").tobytes(), self.bits.tobytes(),
        ))  # fmt: skip
        return _FRONT.pack(_MAGIC, zlib.crc32(body)) + body

    @classmethod
    def from_bytes(cls, data: bytes) -> Self | None:
        """What `to_bytes` gave; None if another version of memeloom did, or if it is damaged."""
        if len(data) < _FRONT.size + _HEAD.size:
            return None
        if _FRONT.unpack_from(data) != (_MAGIC, zlib.crc32(data[_FRONT.size :])):
            return None
        left, top, right, bottom, height, width, *counts = _HEAD.unpack_from(data, _FRONT.size)
        number, pixels = sum(counts), height * width
        body = memoryview(data)[_FRONT.size + _HEAD.size :]
        corners = pixels + _COLOUR_BYTES
        if len(body) != corners + 36 * number:
            return None
        points = np.frombuffer(body, ">u2", 2 * number, corners).reshape(number, 2)
        return cls(
            inset=(left, top, right, bottom),
            thumb=np.frombuffer(body, np.uint8, pixels).reshape(height, width),
            colours=np.frombuffer(body, np.int8, _COLOUR_BYTES, pixels).reshape(CELLS, CELLS, 2),
            points=(points / _STEPS).astype(np.float32),
            bits=np.frombuffer(body, np.uint8, 32 * number, corners + 4 * number).reshape(number, 32),
            counts=tuple(counts),
        )


def sketch_image(data: bytes, *, max_pixels: int = 50_000_000) -> Sketch:
    """The sketch of the picture in `data`. Raises BadImage."""
    return sketch(decode_small(data, SIDES[0], max_pixels=max_pixels))


def sketch(picture: Pixels) -> Sketch:
    """The sketch of a (height, width, 3) BGR picture, or of a (height, width) grey one."""
    height, width = picture.shape[:2]
    # Averaging over whole pixels first is several times faster than one exact step.
    if (factor := int((height * width) ** 0.5 / (1.4 * SIDES[0]))) > 1:
        width, height = max(1, width // factor), max(1, height // factor)
        picture = np.asarray(cv2.resize(picture, (width, height), interpolation=cv2.INTER_AREA), np.uint8)
    in_colour = picture.ndim == 3
    grey = np.asarray(cv2.cvtColor(picture, cv2.COLOR_BGR2GRAY), np.uint8) if in_colour else picture
    left, top, right, bottom = _inner(grey)
    inner = grey[top:bottom, left:right]
    points, bits = [], []
    for side in SIDES:
        inner = _scaled(inner, side)
        corners = find_corners(inner)
        bits.append(describe_corners(inner, corners))
        points.append(np.rint((corners + 0.5) / inner.shape[::-1] * _STEPS) / _STEPS)
    inset = np.array((left / width, top / height, right / width, bottom / height), np.float32)
    return Sketch(
        inset=(float(inset[0]), float(inset[1]), float(inset[2]), float(inset[3])),
        thumb=_scaled(inner, _THUMB_SIDE),
        colours=colours_of(picture[top:bottom, left:right]) if in_colour else no_colours(),
        points=np.concatenate(points).astype(np.float32),
        bits=np.concatenate(bits),
        counts=tuple(len(each) for each in points),
    )


def _inner(grey: Pixels) -> tuple[int, int, int, int]:
    """Left, top, right and bottom of the picture without borders, and without lines of text beyond them."""
    # Rows first: a bar below often has another colour than the borders beside, and the other way round is rare.
    top, bottom = _between_borders(grey, axis=1)
    left, right = _between_borders(grey[top:bottom], axis=0)
    return left, top, right, bottom


def _between_borders(grey: Pixels, axis: int) -> tuple[int, int]:
    """First row (axis 1) or column (axis 0) of the picture proper, and the one after its last."""
    mean, mean_square = (
        cv2.reduce(each, axis, cv2.REDUCE_AVG, dtype=cv2.CV_32F).ravel()
        for each in (grey, np.multiply(grey, grey, dtype=np.uint16))
    )
    even = mean_square - mean * mean < _EVEN**2
    return _border(even), len(even) - _border(even[::-1])


def _border(even: NDArray[np.bool_]) -> int:
    """How many lines a border takes, in which text may stand: thin runs of uneven lines between even ones."""
    changes = np.flatnonzero(even[1:] != even[:-1]) + 1
    most, thin, gap = (int(share * len(even)) for share in (_WIDEST, _THIN, _GAP))
    end = 0
    for start, stop in zip((0, *changes), (*changes, len(even)), strict=True):
        if even[start]:
            if stop - start >= gap or start == 0:
                end = stop
        elif stop - start > thin:
            break
        if stop > most:
            break
    return min(end, most)


def _scaled(grey: Pixels, side: int) -> Pixels:
    scale = side / (grey.shape[0] * grey.shape[1]) ** 0.5
    height, width = (min(_LONGEST, max(_NARROWEST, round(length * scale))) for length in grey.shape)
    how = cv2.INTER_AREA if scale < 0.6 else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(grey, (width, height), interpolation=how), np.uint8)
