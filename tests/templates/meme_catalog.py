"""A catalog for tests, and what puts pictures into it."""

from collections.abc import Iterable
from datetime import UTC, datetime

from PIL import Image as Pillow

from memeloom.catalog.documents import DocumentStore
from memeloom.catalog.images import inspect_image
from memeloom.catalog.records import Image, Meme, Template
from memeloom.catalog.stores import open_blobs, open_documents
from memeloom.configs.schema import Config
from tests.templates.pictures import captioned, encode

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


def with_(config: Config, **templates: object) -> Config:
    """`config` with other settings of the section `templates`."""
    return config.model_copy(update={"templates": config.templates.model_copy(update=templates)})


class MemeCatalog:
    """The catalog of `config`. Memes and templates go by short names."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.documents: DocumentStore = open_documents(config.store)
        self.blobs = open_blobs(config.store)

    def image(self, picture: Pillow.Image | bytes, quality: int = 85) -> Image:
        data = picture if isinstance(picture, bytes) else encode(picture, quality)
        self.blobs.put(data)
        return inspect_image(data, max_bytes=10**8, max_pixels=10**8)

    def meme(self, name: str, picture: Pillow.Image | bytes | None, **facts: object) -> Meme:
        image = None if picture is None else self.image(picture)
        known = {"id": f"test:{name}", "source": "test", "image": image, "fetched_at": LONG_AGO}
        meme = Meme.model_validate({**known, **facts})
        self.documents.upsert([meme])
        return meme

    def template(self, template_id: str, picture: Pillow.Image | None, **facts: object) -> Template:
        image = None if picture is None else self.image(picture, 92)
        known = {
            "id": template_id, "slug": f"slug-{template_id}", "name": f"Name {template_id}", "image": image,
            "source": "test",
        }  # fmt: skip
        template = Template.model_validate({**known, **facts})
        self.documents.upsert_templates([template])
        return template

    def content(self) -> list[list[object]]:
        """Everything in it."""
        return [list(self.documents.scan()), list(self.documents.templates()), list(self.documents.sketches())]

    def memes_on(self, seed: int, letter: str, numbers: Iterable[int]) -> None:
        """Add memes on `draw(seed)`, each with its own caption: a0, a1 …"""
        for number in numbers:
            self.meme(f"{letter}{number}", captioned(seed, number))

    def get(self, name: str) -> Meme:
        meme = self.documents.get(f"test:{name}")
        assert meme is not None
        return meme

    def made_on(self, name: str) -> str | None:
        """Id of the template that a meme's record names."""
        template = self.get(name).template
        return template.id if template else None

    def clusters(self) -> dict[str, list[str]]:
        """Names of memes by template."""
        found: dict[str, list[str]] = {}
        for meme in self.documents.scan():
            if meme.template:
                found.setdefault(meme.template.id, []).append(meme.id.removeprefix("test:"))
        return found

    def unknown(self) -> list[str]:
        return [stored.meme for stored in self.documents.sketches(unmatched=True)]
