"""Put the drawings of explanations into their pages, so that they take the colours of the site's scheme.

As pictures they could follow the scheme of the system only. On a code host they are pictures.
"""

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

_FOLDER = Path(__file__).resolve().parents[1] / "images" / "explanations"
_PICTURE = re.compile(r'<p><img alt="[^"]*" src="[^"]*images/explanations/(?P<name>[a-z]+)\.svg" ?/?></p>')
# style.css has the rules of these pages.
_STYLE = re.compile(r"<style>.*?</style>\n", re.DOTALL)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Replace pictures of drawings by the drawings."""
    return _PICTURE.sub(lambda match: f'<div class="drawing-frame">{_drawing(match["name"])}</div>', html)


def _drawing(name: str) -> str:
    return _STYLE.sub("", (_FOLDER / f"{name}.svg").read_text(encoding="utf-8"))
