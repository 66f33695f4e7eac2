"""The pictures of the miniature internet, drawn when they are asked for; the same request gives the same bytes."""

from collections import OrderedDict
from collections.abc import Callable

from PIL import Image

from memeloom.demo.corpus import Blank, Corpus
from memeloom.demo.film import encode, remark
from memeloom.serve.drawing import draw_caption

_WIDTH = 500
_PIXELS = 300_000
_THUMBNAIL_WIDTH = 250
_KEPT_BYTES = 32_000_000


class Studio:
    """Draws for one corpus. Not for several threads at once."""

    def __init__(self, corpus: Corpus, *, quick: bool = False) -> None:
        """quick: memes are their template's clean picture, drawn once, each with a remark of its own in the file."""
        self._corpus = corpus
        self._quick = quick
        self._clean: dict[str, Image.Image] = {}
        self._plain: dict[tuple[str, str, bool], bytes] = {}
        self._kept: OrderedDict[tuple[str, tuple[str, ...], str, bool], bytes] = OrderedDict()
        self._kept_bytes = 0

    def meme(self, blank: Blank, boxes: tuple[str, ...], suffix: str = "jpg") -> bytes:
        """The template with the texts in capitals, about 500 pixels wide.

        suffix: ``jpg``, ``png``, or smaller and in motion ``gif`` and ``mp4``.
        """
        return self._drawn(blank, boxes, suffix, small=False)

    def thumbnail(self, blank: Blank, boxes: tuple[str, ...]) -> bytes:
        """The meme as a search shows it, 250 pixels wide, a JPEG."""
        return self._drawn(blank, boxes, "jpg", small=True)

    def blank(self, blank: Blank) -> bytes:
        """The template's clean picture, a JPEG."""
        return self._once(blank, "jpg", small=False)

    def blank_thumbnail(self, blank: Blank) -> bytes:
        """The clean picture 250 pixels wide, a JPEG."""
        return self._once(blank, "jpg", small=True)

    def size(self, blank: Blank) -> tuple[int, int]:
        """Width and height of the template's picture."""
        return self._small(blank).size

    def _drawn(self, blank: Blank, boxes: tuple[str, ...], suffix: str, *, small: bool) -> bytes:
        if self._quick:
            return remark(self._once(blank, suffix, small=small), suffix, "\n".join(boxes))

        def draw() -> bytes:
            picture = draw_caption(self._small(blank), blank.boxes, [text.upper() for text in boxes])
            return encode(_shrunk(picture) if small else picture, suffix)

        return self._keep((blank.id, boxes, suffix, small), draw)

    def _once(self, blank: Blank, suffix: str, *, small: bool) -> bytes:
        recipe = (blank.id, suffix, small)
        if recipe not in self._plain:
            picture = self._small(blank)
            self._plain[recipe] = encode(_shrunk(picture) if small else picture, suffix)
        return self._plain[recipe]

    def _keep(self, recipe: tuple[str, tuple[str, ...], str, bool], draw: Callable[[], bytes]) -> bytes:
        if recipe in self._kept:
            self._kept.move_to_end(recipe)
            return self._kept[recipe]
        data = self._kept[recipe] = draw()
        self._kept_bytes += len(data)
        while self._kept_bytes > _KEPT_BYTES:
            self._kept_bytes -= len(self._kept.popitem(last=False)[1])
        return data

    def _small(self, blank: Blank) -> Image.Image:
        if blank.id not in self._clean:
            picture = self._corpus.picture(blank)
            factor = min(1.0, _WIDTH / picture.width, (_PIXELS / (picture.width * picture.height)) ** 0.5)
            size = (round(picture.width * factor), round(picture.height * factor))
            self._clean[blank.id] = picture.resize(size, Image.Resampling.LANCZOS) if factor < 1 else picture
        return self._clean[blank.id]


def _shrunk(picture: Image.Image) -> Image.Image:
    copy = picture.copy()
    copy.thumbnail((_THUMBNAIL_WIDTH, 1000))
    return copy
