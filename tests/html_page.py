"""An HTML page taken apart."""

from html.parser import HTMLParser


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
