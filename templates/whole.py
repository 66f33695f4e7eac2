"""Whether two pictures show the same and not only a part of it: one may be cropped or framed, but is no mere panel."""

from memeloom.templates.placing import Placing
from memeloom.templates.sketch import Sketch

_LEAST_OVERLAP = 0.6


def are_whole(picture: Sketch, template: Sketch, placing: Placing) -> bool:
    """Whether most of both is where the other is. placing: of `template` in `picture`."""
    return overlap(picture, template, placing) >= _LEAST_OVERLAP


def overlap(picture: Sketch, template: Sketch, placing: Placing) -> float:
    """Intersection over union of both pictures without their borders, where `placing` puts them, 0-1."""
    picture = picture.mirrored if placing.mirrored else picture
    intersection = area_here = area_there = 1.0
    for axis in (0, 1):
        scale, shift = placing.affine[axis, axis], placing.affine[axis, 2]
        low, high = (scale * picture.inset[axis + end] + shift for end in (0, 2))
        first, last = template.inset[axis], template.inset[axis + 2]
        intersection *= max(0.0, min(high, last) - max(low, first))
        area_here *= high - low
        area_there *= last - first
    return float(intersection / (area_here + area_there - intersection))
