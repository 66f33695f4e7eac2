"""Generate the reference of settings from the schema and the comments of the files of defaults."""

import builtins
import re
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Any, get_args, get_origin

import yaml
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from pydantic import BaseModel, SecretStr

from memeloom.configs import fields
from memeloom.configs.describe import defaults, descriptions
from memeloom.configs.load import PRESETS
from memeloom.configs.schema import Config

_PLAIN: Mapping[Any, str] = {
    bool: "true or false",
    date: "date",
    float: "number",
    int: "integer",
    str: "text",
    SecretStr: "secret text",
}
_MARKS: Mapping[str, str] = {"folder": "folder", "file": "file"}
# Types whose check is a function: what it wants, in words.
_CHECKED = (
    (fields.WebAddress, "web address"),
    (fields.ProxyAddress, "secret address of a proxy"),
    (fields.ApiKey, "line of an API key"),
    (fields.Budget, "requests per time, such as `600/minute`"),
)
_LIMITS = {"ge": "at least {}", "gt": "above {}", "le": "at most {}", "lt": "below {}"}
_HEAD = """# Settings

A settings file names only what differs from the defaults:

```yaml
crawl:
  contact: you@example.org
  max_memes: 5000
```

`memeloom --config my.yaml crawl` uses it. Of a setting that is given more than once, the first of these counts:

1. the command line: the options of a command, or `-s crawl.max_memes=5000`;
2. the environment: `MEMELOOM_CRAWL__MAX_MEMES=5000`;
3. the settings file;
4. the default.

`${NAME}` in a value is taken from the environment; use it for secrets. `null` means "none". An unknown key or an
invalid value is an error that names the file and the key. Each run writes its resolved settings, secrets masked,
beside its output.

"""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of settings."""
    for name, text in pages().items():
        files.append(File.generated(config, f"reference/settings/{name}.md", content=text))
    return files


def pages() -> dict[str, str]:
    """Return the Markdown of each page: an overview, and a page a section."""
    sections = {name: model for name, field in Config.model_fields.items() if (model := _model(field.annotation))}
    texts = {"index": _HEAD + _overview(list(sections)) + _presets()}
    for name, model in sections.items():
        texts[name] = "\n".join([f"# {name}\n", _about(name), *_entries(model, name)])
    return texts


def _overview(sections: Sequence[str]) -> str:
    plain = [name for name in Config.model_fields if name not in sections]
    entries = "\n".join(_entry(name, Config.model_fields[name].annotation, ()) for name in plain)
    counts = {name: sum(key.startswith(f"{name}.") for key in defaults()) for name in sections}
    rows = "\n".join(f"| [`{name}`]({name}.md) | {count} |" for name, count in counts.items())
    return f"## Sections\n\n| section | settings |\n| --- | ---: |\n{rows}\n\n{entries}\n"


def _presets() -> str:
    files = {path.stem: path.read_text(encoding="utf-8").rstrip() for path in sorted(PRESETS.glob("*.yaml"))}
    parts = (f"### {name}\n\n```yaml\n{text}\n```\n" for name, text in files.items())
    return "\n".join(["## Presets\n\n`--config NAME` uses one of these instead of a file.\n", *parts])


def _entries(model: type[BaseModel], prefix: str) -> Iterator[str]:
    """Yield the settings of a section, then its groups."""
    for name, field in model.model_fields.items():
        if not _model(field.annotation):
            yield _entry(f"{prefix}.{name}", field.annotation, field.metadata)
    for name, field in model.model_fields.items():
        if group := _model(field.annotation):
            key = f"{prefix}.{name}"
            yield f"## {key}\n\n{_about(key)}"
            yield from _entries(group, key)


def _entry(key: str, annotation: Any, limits: Sequence[Any]) -> str:
    default = yaml.safe_dump(defaults()[key], default_flow_style=True, width=10_000, allow_unicode=True)
    default = default.removesuffix("...\n").strip()
    return (
        f"### `{key}` {{ #{key} .setting }}\n\n"
        f"{described(annotation, limits)}; default `{default}`\n{{ .type }}\n\n{_about(key)}"
    )


def _about(key: str) -> str:
    text = re.sub(r"([*_<>\[\]])", r"\\\1", descriptions().get(key, ""))
    return f"{text}\n" if text else ""


def _model(annotation: Any) -> type[BaseModel] | None:
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def described(annotation: Any, limits: Sequence[Any] = ()) -> str:
    """Return a type in words: ``integer above 0, or null``."""
    inner = get_args(annotation)
    match get_origin(annotation):
        case typing.Annotated:
            return described(inner[0], [*limits, *inner[1:]])
        case typing.Union | types.UnionType:
            return " or ".join("null" if each is types.NoneType else described(each, limits) for each in inner)
        case typing.Literal:
            return "one of " + ", ".join(f"`{each}`" for each in inner)
        case builtins.tuple:
            return "list: " + ", ".join(dict.fromkeys(described(each) for each in inner if each is not Ellipsis))
    return _described(annotation, limits)


def _described(annotation: Any, limits: Sequence[Any]) -> str:
    for known, words in _CHECKED:
        if any(limit in get_args(known)[1:] for limit in limits):
            return words
    if model := _model(annotation):
        return "groups of " + ", ".join(f"`{name}`" for name in model.model_fields)
    mark = next((_MARKS[limit] for limit in limits if isinstance(limit, str)), None)
    return " ".join([mark or _PLAIN[annotation], *_bounds(limits)])


def _bounds(limits: Sequence[Any]) -> list[str]:
    flat = [each for limit in limits for each in getattr(limit, "metadata", [limit])]
    bounds = [(text, getattr(each, name, None)) for name, text in _LIMITS.items() for each in flat]
    found = [text.format(bound) for text, bound in bounds if bound is not None]
    return [" and ".join(found)] if found else []
