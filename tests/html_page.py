"""An HTML page taken apart."""

from collections.abc import Iterable
from html.parser import HTMLParser

HOSTILE = """<script>alert("1")</script>' onload='x' & <img src=x onerror=y>"""
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_KNOWN = """
    html head meta title style body header main section article h1 h2 h3 p br div span small code pre mark b i bdi a img
    dl dt dd ul ol li table caption thead tbody tr th td figure figcaption details summary noscript svg g path rect
    circle text image datalist option fieldset legend label input button kbd script
"""


class Page(HTMLParser):
    """tags: with their attributes, in order. text: every piece that is not blank or style, each on a line."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if data.strip() and self.tags[-1:] != [("style", {})]:
            self.text += f"{data}\n"

    def of(self, tag: str) -> list[dict[str, str | None]]:
        """The attributes of each tag of that name."""
        return [attributes for name, attributes in self.tags if name == tag]


def check_self_contained(html: str, *, links: Iterable[str] = (), scripts: int = 0) -> None:
    """Fail unless a page loads nothing, runs only `scripts` scripts of ours, and links to nothing but `links`."""
    page = Page(html)
    assert {tag for tag, _ in page.tags} <= set(_KNOWN.split())
    assert len(page.of("script")) == scripts
    assert all(not attributes for attributes in page.of("script"))
    (policy,) = (str(each["content"]) for each in page.of("meta") if "http-equiv" in each)
    assert policy.partition("; script-src 'sha256-")[0] == POLICY
    for tag, attributes in page.tags:
        assert not any(name.startswith("on") for name in attributes), tag
        loaded = {attributes[name] or "" for name in ("src", "href", "srcset", "xlink:href") if name in attributes}
        if tag == "a":
            assert loaded <= set(links)
            assert "noopener" in str(attributes["rel"])
        else:
            assert all(address.startswith("data:image/") for address in loaded), tag
    assert "url(" not in html
    assert "@import" not in html
