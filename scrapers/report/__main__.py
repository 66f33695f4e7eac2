"""`python -m memeloom.scrapers.report SERIES`: the page of a crawl that could not draw it itself."""

import sys
from pathlib import Path

from memeloom.configs.outputs import write_text
from memeloom.scrapers.report.page import draw
from memeloom.scrapers.report.story import read_story


def main(arguments: list[str]) -> str:
    """Write the page beside the series. Raises SystemExit: bad usage, or no such series."""
    if len(arguments) != 1:
        sys.exit("usage: python -m memeloom.scrapers.report SERIES.jsonl")
    path = Path(arguments[0])
    try:
        story = read_story(path)
    except OSError as error:
        sys.exit(f"{path}: {error.strerror}")
    page = path.with_suffix(".html")
    write_text(page, draw(story))
    return str(page)


if __name__ == "__main__":
    sys.stdout.write(f"{main(sys.argv[1:])}\n")
