"""A contact sheet: finished memes in a grid, each over its label, under a title."""

from collections.abc import Sequence

from PIL import Image, ImageDraw

from memeloom.serve.drawing import flatten
from memeloom.serve.lettering import drawable, ems, load_font, paste_lines

_CELL = (420, 340)
_GAP = 24
_LABEL = 30
_TITLE = 84
_PAPER = (24, 26, 34)
_CARD = (38, 41, 54)
_INK = (196, 202, 216)


def draw_sheet(items: Sequence[tuple[Image.Image, str]], columns: int, title: str) -> Image.Image:
    """Lay memes out in rows of `columns`.

    Args:
        items: finished memes (`serve.drawing.draw_caption`) of any size, each with the label under it.
        columns: pictures in a row, at least 1; a last row that is shorter is centred.
        title: the line over them; too long a one is drawn smaller.

    Returns:
        An RGB image; its width depends on `columns`, its height on the number of rows.
    """
    columns = max(1, columns)
    rows = [items[start : start + columns] for start in range(0, len(items), columns)]
    width = columns * (_CELL[0] + _GAP) + _GAP
    row_height = _CELL[1] + _LABEL + _GAP
    sheet = Image.new("RGB", (width, _TITLE + len(rows) * row_height + (_GAP if not rows else 0)), _PAPER)
    _draw_title(sheet, title)
    for number, row in enumerate(rows):
        left = (width - len(row) * (_CELL[0] + _GAP) + _GAP) // 2
        for picture, label in row:
            _draw_cell(sheet, picture, label, (left, _TITLE + number * row_height))
            left += _CELL[0] + _GAP
    return sheet


def _draw_title(sheet: Image.Image, title: str) -> None:
    text = drawable(title.upper())
    size = min(44, int((sheet.width - 2 * _GAP) / max(ems(text), 1)))
    left = (sheet.width - ems(text) * size) / 2
    paste_lines(sheet, [(left, _TITLE / 2 + 0.43 * size, text)], size)


def _draw_cell(sheet: Image.Image, picture: Image.Image, label: str, corner: tuple[int, int]) -> None:
    left, top = corner
    pen = ImageDraw.Draw(sheet)
    pen.rounded_rectangle((left - 6, top - 6, left + _CELL[0] + 5, top + _CELL[1] + _LABEL + 5), 8, _CARD)
    scale = min(_CELL[0] / picture.width, _CELL[1] / picture.height)
    size = (max(1, round(picture.width * scale)), max(1, round(picture.height * scale)))
    small = flatten(picture).resize(size, Image.Resampling.LANCZOS)
    sheet.paste(small, (left + (_CELL[0] - size[0]) // 2, top + (_CELL[1] - size[1]) // 2))
    text = _shortened(drawable(label), _CELL[0] / 18)
    centre = (left + _CELL[0] // 2, top + _CELL[1] + _LABEL // 2 + 2)
    pen.text(centre, text, _INK, load_font(18), "mm")


def _shortened(text: str, room: float) -> str:
    if ems(text) <= room:
        return text
    while text and ems(text) + ems("…") > room:
        text = text[:-1]
    return f"{text}…"
