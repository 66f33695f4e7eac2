"""A picture to draw: what determines it, and its entity tag."""

import hashlib
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Final

import orjson
import PIL

from memeloom.catalog.records import TemplateBox
from memeloom.serve.drawing.encode import Format
from memeloom.serve.drawing.fonts import file_identity, fonts
from memeloom.serve.http.pictures.options import ImageOptions

# Changes when the same request gives another picture.
_RENDERER: Final = "2"


@dataclass(frozen=True)
class Source:
    """A picture to draw on, or to lay over another.

    Attributes:
        key: sha256 of its bytes.
        data: the bytes, if they were fetched; None for a blob of the catalog.
    """

    key: str
    data: bytes | None = None


@dataclass(frozen=True)
class RenderPlan:
    """A picture that can be drawn without further questions.

    Attributes:
        name: the template's, for the alternative text.
        source: the picture to draw on.
        overlay: a picture to lay over it.
        boxes: where texts go, one for each text at least.
        texts: the lines, emoji names replaced.
        options: how to draw.
        format: of the file.
        is_template: the picture depends on the request and on facts of the catalog only.
    """

    name: str
    source: Source
    overlay: Source | None
    boxes: tuple[TemplateBox, ...]
    texts: tuple[str, ...]
    options: ImageOptions
    format: Format
    is_template: bool

    @cached_property
    def version(self) -> str:
        """Changes with the template's picture and boxes, and with the renderer: the `v` of addresses."""
        boxes = [box.model_dump(mode="json") for box in self.boxes]
        return _digest(renderer_version(), self.name, self.source.key, boxes)[:16]

    @cached_property
    def etag(self) -> str:
        """A strong entity tag: equal for pictures that are equal byte for byte."""
        overlay = self.overlay.key if self.overlay else None
        options = self.options.model_dump(mode="json", exclude={"status", "v"})
        return f'"{_digest(self.version, overlay, self.texts, options, self.format)[:32]}"'

    @property
    def is_immutable(self) -> bool:
        """True if the address names the version that it shows, so that it shows the same picture for ever."""
        return self.is_template and self.overlay is None and self.options.v == self.version


@cache
def renderer_version() -> str:
    """Return what the looks of all pictures depend on. The first call blocks: it lists the fonts."""
    return _digest(_RENDERER, PIL.__version__, [(font.id, file_identity(font)) for font in fonts()])


def _digest(*facts: object) -> str:
    return hashlib.sha256(orjson.dumps(facts)).hexdigest()
