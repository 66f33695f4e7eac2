"""Pages: what came from outside stays text, nothing is loaded, and a missing value is an error."""

import base64
import hashlib
import re
from collections.abc import Callable
from pathlib import Path

import jinja2
import pytest

from memeloom.report import pages
from memeloom.report.pages import is_web, render
from tests.html_page import HOSTILE, Page, check_self_contained

MACROS = """{% extends "base.html" %}
{% block header %}{{ kit.ending(text) }}{% endblock %}
{% block main %}
{{ kit.tiles([(text, text, text)]) }}
{{ kit.table((text, text), [(text, text)] * 3, text, most=2) }}
{{ kit.bars((text, text, text), [(text, 3, [text], "bad"), (text, 0, [text], "")]) }}
{{ kit.stack([(text, 1)]) }}
{% call(item) kit.cards([text] * 5, most=2) %}<li>{{ kit.caption([item, " "]) }}</li>{% endcall %}
{% call kit.fold(text) %}{{ text }}{% endcall %}
{% call kit.link(address) %}{{ text }}{% endcall %}
{{ text|foreign }}
{% endblock %}"""


@pytest.fixture
def template(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Adds a template and returns its name."""
    environment, texts = pages._environment(), dict[str, str]()
    loader = jinja2.ChoiceLoader([jinja2.DictLoader(texts), environment.loader or jinja2.DictLoader({})])
    monkeypatch.setattr(environment, "loader", loader)

    def add(text: str) -> str:
        name = f"test-{hashlib.sha256(text.encode()).hexdigest()}.html"
        texts[name] = text
        return name

    return add


def test_every_macro_escapes_what_it_is_given(template: Callable[[str], str]) -> None:
    address = f"https://x/?{HOSTILE}"
    html = render(template(MACROS), title=HOSTILE, text=HOSTILE, address=address)
    check_self_contained(html, links=[address])
    assert Page(html).text.count(HOSTILE) >= 20


def test_long_lists_are_folded_and_only_web_addresses_become_links(template: Callable[[str], str]) -> None:
    html = render(template(MACROS), title="t", text="a", address="javascript:alert(1)")
    check_self_contained(html)
    assert html.count("prefers-color-scheme: dark") == 2
    assert re.findall(r"\S+ (?:more|of 5)\b", Page(html).text) == ["1 more", "3–4 of 5", "5 of 5"]


def test_a_missing_value_is_an_error(template: Callable[[str], str]) -> None:
    with pytest.raises(jinja2.UndefinedError, match="'forgotten' is undefined"):
        render(template("{% extends 'base.html' %}{% block main %}{{ forgotten }}{% endblock %}"), title="t")


def test_a_script_runs_by_its_hash_only(
    template: Callable[[str], str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    code = "for (const each of document.querySelectorAll('a > b')) each.hidden = true && false;"
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "ours.js").write_text(code)
    monkeypatch.setattr(pages, "_FOLDER", tmp_path)
    html = render(template("{% extends 'base.html' %}"), title="t", script="ours.js")
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    assert f"<script>{code}</script>" in html
    assert str(Page(html).of("meta")[1]["content"]).endswith(f"; script-src 'sha256-{digest}'")


@pytest.mark.parametrize(
    ("address", "web"),
    [("https://a.example/x", True), ("javascript:x", False), ("//a", False), (None, False), ("http://[", False)],
)
def test_addresses_of_the_web_are_recognised(address: str | None, web: bool) -> None:
    assert is_web(address) is web


TEMPLATES = sorted((Path(pages.__file__).parent / "templates").iterdir())
SAFE = {"base.html": {"style", "script", "policy"}}


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_no_template_turns_escaping_off_or_names_an_outside_address(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    unescaped = set(re.findall(r"{{\s*([^}]*?)\s*\|\s*safe", text))
    assert unescaped <= SAFE.get(path.name, set())
    assert "autoescape" not in text
    assert not re.search(r"https?:|//\w|url\(|@import|javascript:|\son\w+=", text)
    if path.suffix == ".html":
        assert not re.search(r"=\s*{{", text), "an attribute that is not quoted"
