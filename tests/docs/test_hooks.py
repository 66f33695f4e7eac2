"""The hooks of the documentation site: navigation, files outside docs/, assets of other hosts, the reference."""

import re
from typing import Annotated, Literal

import pytest
from pydantic import Field

from docs.site import command_reference, navigation, outside, python_reference, self_contained, settings_reference
from memeloom.configs.describe import defaults
from memeloom.configs.fields import Budget, Folder, WebAddress


def test_a_pattern_stands_for_the_pages_that_are_not_named() -> None:
    pages = ["how-to/gpu.md", "how-to/index.md", "how-to/own.md", "index.md"]
    nav = ["index.md", {"How-to": ["how-to/own.md", "how-to/*.md"]}, {"Empty": ["nothing/*.md"]}]
    expected = ["index.md", {"How-to": ["how-to/own.md", "how-to/index.md", "how-to/gpu.md"]}]
    assert navigation.expanded(nav, pages) == expected


def test_a_link_out_of_the_docs_leads_to_a_page_that_shows_the_file() -> None:
    page = outside.DOCS / "how-to" / "x.md"
    text = "[a](../../configs/default.yaml#L3) [b](../crawling.md) [c](../../CHANGELOG.md) [d](https://example.org/x)"
    shown = [
        outside.shown_as((page.parent / link).resolve()) for link in ("../../configs/default.yaml", "../crawling.md")
    ]
    assert shown == ["source/configs/default.yaml.md", "crawling.md"]
    assert outside.rewritten(text, page, "how-to/x.md") == (
        "[a](../source/configs/default.yaml.md) [b](../crawling.md) [c](../changelog.md) [d](https://example.org/x)"
    )


def test_a_link_to_no_file_is_left_to_the_strict_build() -> None:
    assert outside.rewritten("[a](../none.yaml)", outside.DOCS / "x.md", "x.md") == "[a](../none.yaml)"


@pytest.mark.parametrize(
    "loaded",
    [
        '<script src="https://cdn.example/x.js"></script>',
        '<link rel="stylesheet" href="//cdn.example/x.css">',
        '<link rel="preconnect" href="https://fonts.example">',
        '<img srcset="http://pictures.example/x.png 2x">',
        '<svg><image href="https://pictures.example/x.png"/></svg>',
        "<style>@import 'https://fonts.example/css';</style>",
        "a { background: url(//pictures.example/x.png) }",
    ],
)
def test_what_another_host_would_send_is_found(loaded: str) -> None:
    assert len([*self_contained.foreign_assets(loaded)]) == 1


def test_links_and_local_assets_are_fine() -> None:
    page = (
        '<a href="https://example.org"></a><link rel="canonical" href="https://x.example"><img src="../images/x.png">'
    )
    assert [*self_contained.foreign_assets(page)] == []


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (bool, "true or false"),
        (Annotated[int, Field(ge=1, le=65535)] | None, "integer at least 1 and at most 65535 or null"),
        (tuple[Literal["a", "b"], ...], "list: one of `a`, `b`"),
        (Folder, "folder"),
        (tuple[WebAddress, ...], "list: web address"),
        (Budget | None, "requests per time, such as `600/minute` or null"),
    ],
)
def test_types_are_told_in_words(annotation: object, words: str) -> None:
    assert settings_reference.described(annotation) == words


def test_every_setting_is_described_once() -> None:
    pages = "\n".join(settings_reference.pages().values())
    assert sorted(re.findall(r"^### `([^`]+)` \{ #", pages, re.MULTILINE)) == sorted(defaults())


def test_every_command_has_its_options_with_a_link_to_their_settings() -> None:
    pages = command_reference.pages()
    assert "## dataset diff" in pages["dataset"]
    assert "`--max-memes INTEGER RANGE`" in pages["crawl"]
    settings = settings_reference.pages()
    links = {link for page in pages.values() for link in re.findall(r"\(\.\./settings/(\w+)\.md#([a-z0-9_.]+)\)", page)}
    assert len(links) > 40
    assert all(f"{{ #{key} " in settings[page] for page, key in links)


def test_paragraphs_of_descriptions_become_sections() -> None:
    docstring = "A word.\n\nx, y: place of\n    its box.\nline: its number.\n\nNote: none of it is checked."
    assert python_reference.as_google(docstring, "Attributes") == (
        "A word.\n\nAttributes:\n    x: place of\n        its box.\n    y: place of\n        its box.\n"
        "    line: its number.\n\nNote: none of it is checked."
    )
