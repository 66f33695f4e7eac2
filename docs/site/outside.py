"""Show files outside docs/ that pages link to: a Markdown file becomes a page, any other text a page of code.

So a link such as ``../configs/default.yaml`` works on a code host and on the site, wherever that is.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

DOCS = Path(__file__).resolve().parents[1]
ROOT = DOCS.parent
# Shown although no page may link to it.
ALWAYS = ROOT / "CHANGELOG.md"
_LINK = re.compile(r"(?<=\]\()(?P<path>[^)#\s:]+)(?P<fragment>(?:#[^)\s]*)?)(?=\))")
_FENCE = "`" * 6
_LANGUAGES = {".py": "python", ".yaml": "yaml", ".yml": "yaml", ".sh": "bash", ".toml": "toml", ".json": "json"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files that pages link to, and those that these link to."""
    origins = [DOCS / file.src_uri for file in files.documentation_pages()]
    waiting = [ALWAYS, *(path for origin in origins for path in linked(origin))]
    shown: set[Path] = set()
    while waiting:
        path = waiting.pop()
        if path in shown or path.is_relative_to(DOCS) or not path.is_file():
            continue
        shown.add(path)
        if path.suffix == ".md":
            waiting += linked(path)
        files.append(_file(path, config))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Point links to files outside docs/ at what the site shows of them."""
    origin = ROOT / page.meta.get("origin", f"docs/{page.file.src_uri}")
    return rewritten(markdown, origin, page.file.src_uri)


def linked(origin: Path) -> list[Path]:
    """Return the files that a Markdown file links to."""
    if not origin.is_file():
        return []
    links = _LINK.finditer(origin.read_text(encoding="utf-8"))
    return [(origin.parent / match["path"]).resolve() for match in links]


def shown_as(path: Path) -> str:
    """Return the file of the site, relative to docs/, that shows the file `path` of the checkout."""
    if path.is_relative_to(DOCS):
        return path.relative_to(DOCS).as_posix()
    name = path.relative_to(ROOT).as_posix()
    if path.suffix == ".md":
        return name.lower()
    return f"source/{name}.md" if _text(path) is not None else f"source/{name}"


def rewritten(markdown: str, origin: Path, page: str) -> str:
    """Return the Markdown of the file `origin` with the links of the site's page `page`."""
    return _LINK.sub(lambda match: _target(match["path"], match["fragment"], origin, page), markdown)


def _target(link: str, fragment: str, origin: Path, page: str) -> str:
    path = (origin.parent / link).resolve()
    if not path.is_relative_to(ROOT) or not path.is_file():
        return link + fragment  # the strict build names it
    target = posixpath.relpath(shown_as(path), posixpath.dirname(page) or ".")
    # A code host's anchors of lines are none of ours.
    return target + (fragment if path.suffix == ".md" else "")


def _file(path: Path, config: MkDocsConfig) -> File:
    name = path.relative_to(ROOT).as_posix()
    uri = shown_as(path)
    text = _text(path)
    if text is None:
        return File.generated(config, uri, abs_src_path=str(path))
    if path.suffix == ".md":
        listed = InclusionLevel.INCLUDED if path == ALWAYS else InclusionLevel.NOT_IN_NAV
        return File.generated(config, uri, content=f"---\norigin: {name}\n---\n{text}", inclusion=listed)
    head = f"---\ntitle: {name}\nsearch:\n  exclude: true\n---\n"
    code = f"{_FENCE}{_LANGUAGES.get(path.suffix, 'text')}\n{text.rstrip()}\n{_FENCE}\n"
    return File.generated(config, uri, content=f"{head}# {name}\n\n{code}", inclusion=InclusionLevel.NOT_IN_NAV)


def _text(path: Path) -> str | None:
    """Return the text of a file to show, or None for one to download."""
    if path.suffix in (".ipynb", ".html", ".svg"):
        return None
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None
