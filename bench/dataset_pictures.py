"""Size of a dataset whose captions share the pictures of their templates, in each format.

The real captions, all of them (no steps), with the real pictures of their 70 templates. `once`: as the builder and
`memeloom dataset export` store them. `a copy a caption`: the same records with the picture in each, which a dataset
of version 4 had. Bytes on disk of records and pictures, a hard link counted once; seconds include verifying.
"""

import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from bench.dataset_build import build, real_catalog
from bench.rows import Row
from memeloom.catalog.images import inspect_image
from memeloom.catalog.records import Template
from memeloom.catalog.stores import open_blobs, open_documents
from memeloom.configs.load import load_config
from memeloom.dataset.export import IMAGE_FOLDER, TARGETS, Target, export_dataset
from memeloom.dataset.formats.registry import FORMATS
from memeloom.dataset.manifest import read_manifest
from memeloom.dataset.reader import read_dataset
from memeloom.dataset.schema import SPLITS

_MAX_BYTES, _MAX_PIXELS = 10**8, 10**8
_GIGABYTE = 10**9


def picture_rows(data: Path) -> Iterator[Row]:
    """Yield a row for each format."""
    with tempfile.TemporaryDirectory(prefix="memeloom-bench-") as name:
        folder = Path(name)
        catalog = real_catalog(data, folder)
        stores = [f"store.documents=sqlite:///{catalog}", f"store.blobs={folder / 'blobs'}"]
        pictures = _add_pictures(data, stores)
        dataset = folder / "dataset"
        build(
            catalog, dataset, stores[1], "dataset.steps=[]", "dataset.images=template", "dataset.compression=none"
        )  # fmt: skip
        kept = f"{read_manifest(dataset).records:,}"
        for form in TARGETS:
            figures = {"captions": kept, "pictures": str(pictures)}
            if form != IMAGE_FOLDER:
                figures["GB, a copy a caption"] = f"{_copied(dataset, folder / 'copied', form) / _GIGABYTE:.2f}"
            for compression in ("none", "zstd") if form != "webdataset" else ("none", "gzip"):
                began = time.perf_counter()
                done = export_dataset(dataset, folder / form, form, compression)
                seconds = time.perf_counter() - began
                figures |= {f"GB, once, {compression}": f"{done.bytes / _GIGABYTE:.3f}", "seconds": f"{seconds:.0f}"}
            yield Row("pictures", form, figures)


def _add_pictures(data: Path, stores: list[str]) -> int:
    """Give the templates of the catalog their pictures; return how many have one."""
    config = load_config(overrides=stores, environment={})
    facts = json.loads((data / "templates" / "manifest.json").read_text(encoding="utf-8"))
    files = {fact["imgflip_slug"]: fact["file"] for fact in facts if fact.get("captions_file")}
    with closing(open_documents(config.store)) as documents, closing(open_blobs(config.store)) as blobs:
        used = {meme.template.slug: meme.template for meme in documents.scan() if meme.template}
        templates = []
        for slug, template in used.items():
            content = (data / "templates" / files[slug]).read_bytes()
            blobs.put(content)
            image = inspect_image(content, max_bytes=_MAX_BYTES, max_pixels=_MAX_PIXELS)
            known = {"id": template.id, "slug": slug, "name": template.name, "source": "imgflip"}
            templates.append(Template(**known, image=image))
        documents.upsert_templates(templates)
    return len(templates)


def _copied(dataset: Path, path: Path, form: Target) -> int:
    """Return the bytes of one file of all records with their pictures."""
    reader = read_dataset(dataset)
    file = FORMATS[form].create(path, "none", pictures=True)  # type: ignore[index]
    for split in SPLITS:
        for record in reader.records(split):
            file.write(record)
    file.close()
    path.unlink()
    return file.bytes
