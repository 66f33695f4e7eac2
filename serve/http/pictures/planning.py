"""Requests for pictures, resolved and checked before anything is drawn."""

import hashlib
from collections.abc import Sequence
from typing import Final

import emoji

from memeloom.catalog.records import Template, TemplateBox, TextStyle
from memeloom.serve.drawing.boxes import text_boxes
from memeloom.serve.drawing.encode import Format
from memeloom.serve.drawing.fonts import UnknownFont, find_font
from memeloom.serve.http.pictures.options import BoxParameter, ImageOptions
from memeloom.serve.http.pictures.plan import RenderPlan, Source
from memeloom.serve.http.problems import Problem
from memeloom.serve.http.resources import Resources
from memeloom.serve.http.templates import capacity, find_template

CUSTOM: Final = "custom"
FORMATS: Final[dict[str, Format]] = {"png": "png", "jpg": "jpeg", "jpeg": "jpeg", "gif": "gif", "webp": "webp"}
MEDIA_TYPES: Final[dict[Format, str]] = {
    "png": "image/png", "jpeg": "image/jpeg", "gif": "image/gif", "webp": "image/webp",
}  # fmt: skip
_LONGEST_LINE: Final = 200  # characters
# Lines on a picture whose text boxes are unknown: any, but a bound on the work.
_MOST_LINES: Final = 20


async def plan_image(
    resources: Resources, name: str, lines: Sequence[str], extension: str, options: ImageOptions
) -> RenderPlan:
    """Resolve a request for a picture.

    Args:
        resources: of the server.
        name: a template's id, slug or name, or ``custom``.
        lines: the texts, as `decode_lines` returns them.
        extension: of the file.
        options: the query parameters.

    Raises:
        Problem: 404 unknown template, 415 a picture that cannot be fetched, 422 a field.
    """
    check_characters(lines)
    file_format = check_extension(extension)
    if options.font is not None:
        await resources.run(check_font, options.font)
    if name == CUSTOM:
        if options.background is None:
            raise Problem(422, None, "background: write the web address of a picture", "background")
        data = await resources.fetcher.fetch(options.background, "background")
        source, title, boxes = Source(_sha256(data), data), "Meme", custom_boxes(lines, options)
    else:
        template = find_template(await resources.templates(), name)
        assert template.picture is not None
        source, title = Source(template.picture.key), template.name
        boxes = template_boxes(template, lines, options)
    overlay = None
    if options.style and options.style.lower() not in ("default", "animated"):
        if "://" not in options.style:
            raise Problem(422, None, f"style: {title} has no such style; its styles: default", "style")
        overlay_data = await resources.fetcher.fetch(options.style, "style")
        overlay = Source(_sha256(overlay_data), overlay_data)
    texts = tuple(emoji.emojize(line, language="alias") for line in lines)
    return RenderPlan(title, source, overlay, tuple(boxes), texts, options, file_format, name != CUSTOM)


def check_extension(extension: str) -> Format:
    """Return the format that an extension names. Raises Problem: 422, there is none."""
    file_format = FORMATS.get(extension.lower())
    if file_format is None:
        raise Problem(422, None, "the extension must be png, jpg, gif or webp", "extension")
    return file_format


def check_characters(lines: Sequence[str]) -> None:
    """Check texts. Raises Problem: 422, a control character."""
    for number, line in enumerate(lines, 1):
        if any(_is_control(character) for character in line):
            raise Problem(422, None, f"line {number} has a control character or half a character", "text")


def check_lengths(lines: Sequence[str]) -> None:
    """Check texts that a client puts into an address. Those that the model writes may be longer.

    Raises:
        Problem: 414, a line has more than 200 characters.
    """
    for number, line in enumerate(lines, 1):
        if is_too_long(line):
            raise Problem(414, None, f"line {number} has more than {_LONGEST_LINE} characters", "text")


def is_too_long(line: str) -> bool:
    """Return whether a line has more than 200 characters."""
    return len(line) > _LONGEST_LINE


def check_font(name: str) -> None:
    """Check the name of a font. Raises Problem: 422, no font has that id or alias."""
    try:
        find_font(name)
    except UnknownFont as error:
        raise Problem(422, None, f"font: {error}; /fonts/ lists them", "font") from None


def template_boxes(template: Template, lines: Sequence[str], options: ImageOptions) -> list[TemplateBox]:
    """Return a box for each line: the one that the request places, else the template's own.

    Raises:
        Problem: 422, there are more lines than boxes.
    """
    own = capacity(template)
    boxes = list(text_boxes(template, min(len(lines), own)))
    assert template.picture is not None
    size = template.picture.width, template.picture.height
    for number, box in enumerate(options.boxes):
        if box is not None and number <= len(boxes):
            boxes[number : number + 1] = [_placed(box, size)]
    most = _MOST_LINES if options.layout == "top" else max(own, len(boxes))
    if len(lines) > most:
        raise Problem(422, None, f"{template.name} takes {most} lines of text, not {len(lines)}", "text", lines=most)
    return boxes


def custom_boxes(lines: Sequence[str], options: ImageOptions) -> list[TemplateBox]:
    """Return a box for each line on a picture that is no template. Raises Problem: 422 for too many lines."""
    if len(lines) > _MOST_LINES:
        raise Problem(422, None, f"at most {_MOST_LINES} lines of text", "text", lines=_MOST_LINES)
    if any(options.boxes):
        raise Problem(422, None, "box: only templates have boxes in pixels", "box")
    return list(text_boxes(Template(id=CUSTOM, slug=CUSTOM, name=CUSTOM, source=CUSTOM), len(lines)))


def _placed(box: BoxParameter, size: tuple[int, int]) -> TemplateBox:
    width, height = size
    style = TextStyle(colour=box.colour or "#ffffff", outline=box.outline or "#000000", capitals=False)
    return TemplateBox(
        x=box.x / width, y=box.y / height, width=box.width / width, height=box.height / height, style=style
    )


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _is_control(character: str) -> bool:
    return (
        (character < " " and character not in "\n\t")
        or "\x7f" <= character < "\xa0"
        or "\ud800" <= character <= "\udfff"
    )
