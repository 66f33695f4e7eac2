"""Pieces of Markdown that show what strangers wrote: whatever it says, it stays text."""

from collections.abc import Iterable, Sequence
from typing import Final

from memeloom.dataset.card_text import shown

# What has a meaning somewhere in Markdown, its tables, or the HTML that it becomes.
_ESCAPES: Final = str.maketrans({
    "&": "&amp;", "<": "&lt;", ">": "&gt;", "`": "&#96;", "\\": "&#92;", "@": "&#64;", "$": "&#36;", "|": "\\|",
    "*": "\\*", "_": "\\_", "[": "\\[", "]": "\\]", "~": "\\~", "#": "\\#",
})  # fmt: skip


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table. head: Markdown. rows: texts of whomever, and whole numbers."""
    lines = [head, ["---"] * len(head), *([_cell(value) for value in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def prose(text: str) -> str:
    """A text that Markdown takes for nothing but text; addresses in it do not become links."""
    return text.translate(_ESCAPES).replace("://", "&#58;//").replace("www.", "www&#46;")


def told(text: str) -> str:
    """A text of a stranger on one line."""
    return prose(shown(text))


def code(text: str) -> str:
    """A short text as code, backticks and all."""
    line = shown(text, 80)
    return f"`` {line} ``" if "`" in line else f"`{line}`"


def _cell(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else told(str(value))
