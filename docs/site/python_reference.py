"""Generate the reference of the Python interface: the names that are public, documented by their docstrings."""

import re
import shutil
from pathlib import Path
from textwrap import indent
from typing import Any

import griffe
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files

import memeloom

_DESCRIPTION = re.compile(r"[a-z_]\w*(?:, [a-z_]\w*)*: ")
# Names that share a description, whose further lines are indented more.
_TOGETHER = re.compile(r"^(?P<indent> *)(?P<names>\w+(?:, \w+)+)(?P<text>: .*(?:\n(?P=indent) +.*)*)", re.MULTILINE)

_ROOT = Path(memeloom.__file__).parent
_HEADS = {
    "memeloom": "The names of `import memeloom`; [Python](../../python.md) shows them in use.",
    "records": "What a catalog holds (`memeloom.catalog.records`), and a record of a dataset.",
    "stores": "The protocols of the document store and the blob store; SQLite, MongoDB, folders and S3 implement them.",
    "steps": "Filters and OCR cleaning: a record in, `Keep(record)` or `Drop(reason)` out.",
    "sources": "What a site that is crawled declares; [adding a source](../../how-to/new-source.md) shows one.",
    "engines": "What an OCR engine implements.",
    "kinds": "What a kind of model implements.",
    "formats": "What a file format of datasets implements.",
}
_NAMES = {
    "memeloom": [f"{memeloom._MODULES[name]}.{name}" for name in sorted(memeloom.__all__, key=str.lower)],  # noqa: SLF001
    "records": [
        *(f"memeloom.catalog.records.{name}" for name in ("Meme", "Template", "Image", "DerivedImage")),
        *(f"memeloom.catalog.records.{name}" for name in ("TemplateRef", "TemplateBox", "TextStyle", "Ocr", "OcrBox")),
        "memeloom.dataset.schema.DatasetRecord",
        "memeloom.dataset.schema.Picture",
    ],
    "stores": [
        *(f"memeloom.catalog.documents.{name}" for name in ("Importing", "Memes", "Templates", "WorkQueue", "Removal")),
        *(f"memeloom.catalog.documents.{name}" for name in ("Where", "Lease", "StageCounts", "Counts")),
        "memeloom.catalog.blobs.BlobStore",
    ],
    "steps": [
        *(f"memeloom.engine.steps.{name}" for name in ("Keep", "Drop", "apply_steps")),
        "memeloom.dataset.steps.caption.Caption",
        "memeloom.dataset.steps.registry.build_steps",
    ],
    "sources": ["memeloom.configs.sources.Source", "memeloom.scrapers.sources.spider.MemeSpider"],
    "engines": [f"memeloom.ocr.engines.contract.{name}" for name in ("Engine", "Word", "EngineMissing", "ReadFailed")],
    "kinds": [
        f"memeloom.train.contract.{name}"
        for name in (
            "Kind", "TrainingTask", "Captioner", "CaptionWriter", "DecodingState", "Prompt", "CaptionScores",
            "ModelParts",
        )
    ],
    "formats": [f"memeloom.dataset.formats.contract.{name}" for name in ("Format", "NewFile", "Create", "Read")],
}  # fmt: skip
_TITLES = {"memeloom": "memeloom", "kinds": "Kinds of models", "engines": "OCR engines", "formats": "File formats"}


@event_priority(100)  # before mkdocstrings reads its options
def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Lay out the modules of the names under their installed name; mkdocstrings parses whatever is in that folder."""
    handlers = config.plugins["mkdocstrings"].config.handlers
    handlers["python"]["options"]["extensions"] = [f"{__file__}:{OurDocstrings.__name__}"]
    packages = Path(config.config_file_path).parent / handlers["python"]["paths"][0]
    shutil.rmtree(packages, ignore_errors=True)
    for module in {name.rpartition(".")[0] for names in _NAMES.values() for name in names}:
        parts = Path(*module.split(".")[1:])
        for part in [*(folder / "__init__.py" for folder in parts.parents), parts.with_suffix(".py")]:
            copy = packages / "memeloom" / part
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(_ROOT / part, copy)
    return config


class OurDocstrings(griffe.Extension):
    """Tell griffe what our docstrings mean where they differ from Google's style."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of `obj`."""
        if obj.docstring:
            obj.docstring.value = as_google(obj.docstring.value, "Attributes" if obj.is_class else "Args")


def as_google(docstring: str, section: str) -> str:
    """Return a docstring whose paragraphs of descriptions are sections.

    A paragraph that begins with ``name: …`` is one of descriptions. Names that share one (``width, height: …``) get it
    each: griffe would take the second for a type.
    """
    parts = docstring.split("\n\n")
    told = [f"{section}:\n{indent(part, '    ')}" if _DESCRIPTION.match(part) else part for part in parts]
    return _TOGETHER.sub(_each, "\n\n".join(told))


def _each(match: re.Match[str]) -> str:
    return "\n".join(f"{match['indent']}{name}{match['text']}" for name in match["names"].split(", "))


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the interface."""
    rows = ""
    for page, names in _NAMES.items():
        title = _TITLES.get(page, page.capitalize())
        rows += f"| [{title}]({page}.md) | {_HEADS[page]} |\n"
        text = f"# {title}\n\n{_HEADS[page]}\n\n" + "\n".join(f"::: {name}\n" for name in names)
        files.append(File.generated(config, f"reference/python/{page}.md", content=text))
    index = f"# Python interface\n\n| page | names |\n| --- | --- |\n{rows}"
    files.append(File.generated(config, "reference/python/index.md", content=index))
    return files
