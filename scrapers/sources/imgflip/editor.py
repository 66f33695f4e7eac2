"""Parser of Imgflip's editor page, `/memegenerator/<id>`: where a template's text boxes are.

The editor shows the picture 463 pixels wide; each text box over it is an element with a style rule such as
`left: 4px; top: 302px; width: 455px; height: 105px; transform: rotate(353deg);`, the last box first.
"""

import re
from collections.abc import Sequence

from memeloom.catalog.records import TemplateBox
from memeloom.scrapers.sources.tree import attribute, read_page

PREVIEW = ".mm-canv"
BOX = ".drag-box"

_PREVIEW_WIDTH = 463
_SIDES = ("left", "top", "width", "height")
_SIDE = re.compile(r"\d{1,6}")
_CSS = re.compile(r"(?<![\w-])(left|top|width|height): *(-?[\d.]+)px")
_ROTATION = re.compile(r"rotate\((-?[\d.]+)deg\)")


def parse_editor(html: str) -> tuple[TemplateBox, ...]:
    """Parse an editor page. Returns the boxes in the order of the texts; none if the page does not state them.

    A site that draws the boxes by a script only states none, which is no error: they are learned from memes instead.
    """
    page = read_page(html)
    preview = page.first(PREVIEW)
    width, height = (attribute(preview, name) or "" for name in ("width", "height"))
    rules = [attribute(box, "style") or "" for box in page.all(BOX)]
    if not (_SIDE.fullmatch(width) and _SIDE.fullmatch(height) and int(width) and int(height)):
        return ()
    return css_boxes(rules, int(width), int(height))


def css_boxes(rules: Sequence[str], width: int, height: int) -> tuple[TemplateBox, ...]:
    """Convert the editor's style rules, last box first, to text boxes of a picture of `width` x `height` pixels.

    Boxes are clamped to the picture. Without all sides of a visible box in each rule: no boxes.
    """
    scale_x, scale_y = 1 / _PREVIEW_WIDTH, width / (_PREVIEW_WIDTH * height)
    boxes = []
    for rule in reversed(rules):
        try:
            sides = {name: float(value) for name, value in _CSS.findall(rule)}
            turned = _ROTATION.search(rule)
            angle = (float(turned[1]) + 180) % 360 - 180 if turned else 0.0
        except ValueError:
            return ()
        if not all(name in sides for name in _SIDES):
            return ()
        left, top = max(0.0, sides["left"] * scale_x), max(0.0, sides["top"] * scale_y)
        right = min(1.0, (sides["left"] + sides["width"]) * scale_x)
        bottom = min(1.0, (sides["top"] + sides["height"]) * scale_y)
        if right <= left or bottom <= top:
            return ()
        try:
            boxes.append(TemplateBox(x=left, y=top, width=right - left, height=bottom - top, angle=angle))
        except ValueError:  # infinite
            return ()
    return tuple(boxes)
