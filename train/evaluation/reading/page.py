"""The page on which captions are rated; it works from a file, without a server."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from memeloom.catalog.errors import BadImage
from memeloom.dataset.manifest import DatasetTemplate, Manifest
from memeloom.dataset.pictures import Pictures
from memeloom.dataset.reader import rgb_pixels
from memeloom.report.pages import render
from memeloom.train.evaluation.reading.sheet import QUESTIONS, Mixed

PAGE: Final = "reading.html"
_SIDE, _QUALITY = 480, 72


def render_reading(mixed: Mixed, folder: Path, manifest: Manifest) -> str:
    """Return the page of a sheet as HTML, with the blank pictures of the templates that the dataset in `folder` has.

    Raises:
        DamagedRecords, NotADataset: the dataset's pictures are damaged.
    """
    templates = {template.id: template for template in mixed.templates}
    pictures = _pictures(list(templates.values()), folder, manifest)
    return render(
        "reading.html",
        title="Captions to read",
        script="reading.js",
        sheet=mixed.sheet,
        shown=[template.id if template.id in pictures else "" for template in mixed.templates],
        pictures=[(id_, templates[id_].name, data) for id_, data in pictures.items()],
        questions=QUESTIONS,
    )


def _pictures(templates: Sequence[DatasetTemplate], folder: Path, manifest: Manifest) -> dict[str, str]:
    """Return the pictures by template, as ``data:`` addresses."""
    if manifest.images != "template":
        return {}
    from memeloom.report.pictures import embed

    found, pictures = {}, Pictures(folder, manifest)
    for template in templates:
        if template.image_key is not None and template.image_key in pictures:
            try:
                pixels = rgb_pixels(pictures[template.image_key])
            except BadImage:
                continue
            found[template.id] = embed(pixels[:, :, ::-1], _SIDE, _QUALITY)
    return found
