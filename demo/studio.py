"""The pictures of the miniature internet, drawn when they are asked for; the same request gives the same bytes."""

from collections import OrderedDict
from io import BytesIO

from PIL import Image

from demo.corpus import Blank, Corpus
from serve.drawing import draw_caption

_WIDTH = 500
_PIXELS = 300_000
_QUALITY = 85
_KEPT_BYTES = 32_000_000


class Studio:
    """Draws for one corpus. Not for several threads at once."""

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus
        self._clean: dict[str, Image.Image] = {}
        self._kept: OrderedDict[tuple[str, tuple[str, ...], str], bytes] = OrderedDict()
        self._kept_bytes = 0

    def meme(self, blank: Blank, boxes: tuple[str, ...], suffix: str = "jpg") -> bytes:
        """The template with the texts in capitals, about 500 pixels wide; PNG for the suffix `png`, else JPEG."""
        recipe = (blank.id, boxes, suffix)
        if recipe in self._kept:
            self._kept.move_to_end(recipe)
            return self._kept[recipe]
        picture = draw_caption(self._small(blank), blank.boxes, [text.upper() for text in boxes])
        data = encode(picture, suffix)
        self._kept[recipe] = data
        self._kept_bytes += len(data)
        while self._kept_bytes > _KEPT_BYTES:
            self._kept_bytes -= len(self._kept.popitem(last=False)[1])
        return data

    def blank(self, blank: Blank) -> bytes:
        """The template's clean picture, a JPEG."""
        return encode(self._small(blank))

    def thumbnail(self, blank: Blank) -> bytes:
        """The clean picture 250 pixels wide, a JPEG."""
        picture = self._small(blank).copy()
        picture.thumbnail((250, 1000))
        return encode(picture)

    def size(self, blank: Blank) -> tuple[int, int]:
        """Width and height of the template's picture."""
        return self._small(blank).size

    def _small(self, blank: Blank) -> Image.Image:
        if blank.id not in self._clean:
            picture = self._corpus.picture(blank)
            factor = min(1.0, _WIDTH / picture.width, (_PIXELS / (picture.width * picture.height)) ** 0.5)
            size = (round(picture.width * factor), round(picture.height * factor))
            self._clean[blank.id] = picture.resize(size, Image.Resampling.LANCZOS) if factor < 1 else picture
        return self._clean[blank.id]


def encode(picture: Image.Image, suffix: str = "jpg") -> bytes:
    """`picture` as the bytes of a PNG or a JPEG."""
    stream = BytesIO()
    if suffix == "png":
        picture.save(stream, "PNG", compress_level=1)
    else:
        picture.save(stream, "JPEG", quality=_QUALITY)
    return stream.getvalue()
