"""Each message of docs/troubleshooting.md is one that the code prints."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROOMS = ("catalog", "cli", "configs", "dataset", "engine", "ocr", "scrapers", "serve", "templates", "train")
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text()
MESSAGES = re.findall(r"^```text\n(.*)\n```$", PAGE, re.MULTILINE)
REASONS = re.findall(r"^\| `([^`]+)` \|", PAGE, re.MULTILINE)


@cache
def printed() -> str:
    """All literals of the rooms, a part without a placeholder each on a line, and the scripts of `make`."""
    trees = (ast.parse(path.read_text()) for room in ROOMS for path in (ROOT / room).rglob("*.py"))
    literals = (text for tree in trees for text in _literals(tree))
    return "\n".join([*literals, *((ROOT / name).read_text() for name in ("Makefile", "deploy/system-packages.sh"))])


def _literals(tree: ast.AST) -> Iterator[str]:
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            # Parts of a message may be inserted by str.format.
            yield from re.split(r"\{[a-z0-9:]+\}", node.value.replace("{{", "{").replace("}}", "}"))


def fragments(message: str) -> list[str]:
    """The parts of a message between placeholders."""
    parts = (part.lstrip(":; ") for part in re.split(r"<[a-z]+>", message))
    return [part for part in parts if len(part.strip(" :;,()")) > 2]


def test_each_message_is_printed() -> None:
    """A changed message fails here: change it on the page, too."""
    assert all(map(fragments, MESSAGES))
    assert {message for message in MESSAGES if any(part not in printed() for part in fragments(message))} == set()


def test_each_reason_is_counted() -> None:
    assert set(REASONS) - set(printed().split("\n")) == set()


def test_each_entry_quotes_a_message() -> None:
    entries = re.findall(r"^### .*\n\n```text\n.*\n```\n\n\S", PAGE, re.MULTILINE)
    assert len(entries) == len(MESSAGES) >= 40
    assert PAGE.count("\n### ") == len(entries) + 1  # the table of reasons
