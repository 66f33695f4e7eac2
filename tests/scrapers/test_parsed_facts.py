"""Parsers return nothing that no spider or importer uses."""

import ast
import dataclasses
from pathlib import Path

import pytest

from memeloom.scrapers.pages import imgflip, imgflip_caption, reddit, search

_ROOM = Path(reddit.__file__).parents[1]
_READERS = [*_ROOM.glob("spiders/*.py"), *_ROOM.glob("dumps/*.py"), *_ROOM.glob("pages/imgflip.py")]


@pytest.mark.parametrize(
    "record",
    [
        imgflip.ListedTemplate, imgflip.PostedMeme, imgflip.Listing, imgflip_caption.Caption, reddit.PostedImage,
        reddit.Listing, search.FoundImage,
    ],
)  # fmt: skip
def test_every_parsed_field_is_used(record: type) -> None:
    trees = [ast.parse(path.read_text()) for path in _READERS]
    read = {node.attr for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert {field.name for field in dataclasses.fields(record)} <= read
