"""The code blocks of the documentation."""

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def blocks(page: str, language: str) -> list[str]:
    """Return the blocks of a language on a page of `docs/`, in order."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def files(page: str, language: str = "python") -> dict[str, str]:
    """Return the files that a page shows: blocks that begin with a comment of their path."""
    named = [re.match(r"# (\S+\.\w+)\n", block) for block in blocks(page, language)]
    return {found[1]: block for found, block in zip(named, blocks(page, language), strict=True) if found}
