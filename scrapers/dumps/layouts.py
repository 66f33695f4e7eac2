"""The layouts of caption dumps, and the conversion of their records into memes and templates."""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, TypeGuard

from pydantic import ValidationError

from memeloom.catalog.records import Meme, Template, TemplateRef, author_hash
from memeloom.scrapers.dumps.values import Misfit, are_texts, first_problem, number_of, slug_of, time_of, url_of
from memeloom.scrapers.sources.posts import UNREADABLE
from memeloom.scrapers.sources.reddit import pages as reddit

JsonObject: TypeAlias = Mapping[str, Any]
_POST = re.compile(r"(?:https?:)?/{0,2}(?:www\.)?imgflip\.com/(i|gif)/([0-9A-Za-z]{1,32})(?:[/?#].*)?")
_AUTHOR_HASH = re.compile(r"[0-9a-f]{64}")
_KEPT_REFS = 10_000


class Skipped(NamedTuple):
    """A valid record that is not a meme, with the reason; counted, but not a problem."""

    reason: str


class RecordReader:
    """Converts the records of a dump into memes and templates.

    Dumps do not say how old their facts are, so those of a crawl take precedence (`Meme.merged`).

    Args:
        templates: templates of the catalog.
        author_salt: salt for hashing authors' names; None drops the names.
    """

    def __init__(self, templates: Iterable[Template], author_salt: str | None) -> None:
        self._by_id = {template.id: template for template in templates}
        self._by_slug = {template.slug: template for template in self._by_id.values() if template.usable}
        self._refs: dict[str, TemplateRef] = {}
        self._author_salt = author_salt

    def read_imgflip575k(self, record: JsonObject, slug: str) -> Iterator[Meme]:
        """Read one post of ImgFlip575K; the file name gives its template."""
        metadata = record["metadata"]
        if not isinstance(metadata, dict):
            raise Misfit("metadata is not an object")
        yield self._imgflip(
            record, slug, record["url"], metadata.get("title"), metadata.get("views"), metadata.get("img-votes"),
            metadata.get("author"),
        )  # fmt: skip

    def read_captions(self, record: JsonObject, _slug: str) -> Iterator[Meme]:
        """Read one post of ImgFlip575K in the flat form, which includes its template."""
        yield self._imgflip(
            record, record["template"], record.get("image_url"), record.get("title"), record.get("views"),
            record.get("votes"), record.get("author"),
        )  # fmt: skip

    def read_memefly(self, record: JsonObject, _slug: str) -> Iterator[Meme | Misfit]:
        """Read one template of Memefly with its captions, each a meme identified by the hash of its content."""
        captions = record["meme_text"]
        if not isinstance(captions, list):
            raise Misfit("meme_text is not a list")
        template = self.ref(record["meme_name"])
        for caption in captions:
            boxes = [caption] if isinstance(caption, str) else caption
            if not are_texts(boxes):
                yield Misfit("a caption in meme_text is not a text")
                continue
            content = "\0".join((template.slug, *boxes)).encode()
            yield Meme(
                id=f"memefly:{hashlib.sha256(content).hexdigest()[:24]}",
                source="memefly",
                template=template,
                boxes=tuple(boxes),
            )

    def read_memeloom(self, record: JsonObject, _slug: str) -> Iterator[Meme]:
        """Read one meme of a `memeloom export`."""
        try:
            meme = Meme.model_validate(record)
        except ValidationError as error:
            raise Misfit(first_problem(error)) from None
        if meme.author is not None and not _AUTHOR_HASH.fullmatch(meme.author):
            meme = meme.model_copy(update={"author": self._author(meme.author)})
        yield meme

    def read_reddit(self, record: JsonObject, _slug: str) -> Iterator[Meme | Skipped]:
        """Read one submission of a monthly Reddit dump, a `t3` object as in the API."""
        images, reasons = reddit.parse_post(record)
        if UNREADABLE in reasons:
            raise Misfit("its address, title, id or time cannot be read")
        seen = time_of(record.get("retrieved_on") or record.get("retrieved_utc"))
        try:
            for image in images:
                yield image.meme(self._author(image.author), seen)
        except ValidationError as error:
            raise Misfit(first_problem(error)) from None
        yield from map(Skipped, reasons)

    def read_template_list(self, record: JsonObject, _slug: str) -> Iterator[Template | Misfit]:
        """Read the response of Imgflip's `get_memes`."""
        data = record["data"]
        if not isinstance(data, dict) or not isinstance(data.get("memes"), list):
            raise Misfit("data.memes is not a list")
        for item in data["memes"]:
            if not isinstance(item, dict) or not isinstance(item.get("name"), str):
                yield Misfit("a template without a name")
                continue
            name = item["name"]
            box_count = item.get("box_count")
            yield self._template(item.get("id"), slug_of(name), name, (), item.get("url"), box_count)

    def read_template(self, record: JsonObject, slug: str) -> Iterator[Template]:
        """Read one template of ImgFlip575K; the file name gives its slug."""
        title, names = record.get("title"), record.get("alternative_names")
        name = re.sub(r"( Meme)?( Template)?$", "", title) if isinstance(title, str) else slug.replace("-", " ")
        alternatives = [part.strip() for part in names.split(",")] if isinstance(names, str) else []
        yield self._template(
            record["template_id"], slug, name, tuple(filter(None, alternatives)), record["template_url"], None
        )

    def learn(self, template: Template) -> None:
        """Use `template` for the memes that follow."""
        self._by_id[template.id] = template
        if template.usable:
            self._by_slug[template.slug] = template
        self._refs.clear()

    def ref(self, name: object) -> TemplateRef:
        """Return the reference to the template with that name or slug. Raises Misfit if it is no text."""
        if not isinstance(name, str) or not name.strip():
            raise Misfit("no template is named")
        ref = self._refs.get(name)
        if ref is None:
            slug = name if not re.search(r"\s", name) else slug_of(name) or "-".join(name.split())
            known = self._by_slug.get(slug)
            ref = known.ref() if known else TemplateRef(id=slug, slug=slug, name=slug.replace("-", " "))
            if len(self._refs) >= _KEPT_REFS:
                self._refs.clear()
            self._refs[name] = ref
        return ref

    def _imgflip(
        self, record: JsonObject, template: object, image: object, title: object, views: object, votes: object,
        author: object,
    ) -> Meme:  # fmt: skip
        post, boxes = record["post"], record["boxes"]
        found = _POST.fullmatch(post) if isinstance(post, str) else None
        if not found:
            raise Misfit("post is not the address of an Imgflip post")
        if not are_texts(boxes):
            raise Misfit("boxes is not a list of texts")
        kind, key = found.groups()
        return Meme(
            id=f"imgflip:{key}",
            source="imgflip",
            page_url=f"https://imgflip.com/{kind}/{key}",
            image_url=url_of(image),
            template=self.ref(template),
            boxes=tuple(boxes),
            title=title if isinstance(title, str) and title else None,
            score=number_of(votes),
            views=number_of(views),
            author=self._author(author),
        )

    def _author(self, name: object) -> str | None:
        if self._author_salt is None or not isinstance(name, str) or not name:
            return None
        return author_hash(name, self._author_salt)

    def _template(
        self, identity: object, slug: str, name: str, alt_names: tuple[str, ...], image: object, box_count: object
    ) -> Template:
        if not isinstance(identity, str | int) or isinstance(identity, bool) or not str(identity) or not slug:
            raise Misfit("a template without an id or a name")
        new = Template(
            id=str(identity), slug=slug, name=name, alt_names=alt_names, image_url=url_of(image),
            box_count=number_of(box_count), source="imgflip",
        )  # fmt: skip
        known = self._by_id.get(new.id)
        if known is None:
            return new
        # A crawl's facts are newer than a dump's, so only missing ones are added.
        missing = {key: value for key, value in new.__dict__.items() if getattr(known, key) in (None, ())}
        return known.model_copy(update=missing)


@dataclass(frozen=True, slots=True)
class Layout:
    """A layout: the keys that identify it, and the method that reads a record (record, slug of the file)."""

    name: str
    shape: str
    keys: Set[str]
    read: Callable[[RecordReader, JsonObject, str], Iterator[Meme | Template | Skipped | Misfit]]

    def fits(self, value: object) -> TypeGuard[JsonObject]:
        """Return whether `value` has the keys of this layout."""
        return isinstance(value, dict) and self.keys <= value.keys()


LAYOUTS = {
    layout.name: layout
    for layout in (
        Layout("memeloom", "our own export", {"id", "source", "schema_version"}, RecordReader.read_memeloom),
        Layout("captions", "{template, post, boxes}", {"template", "post", "boxes"}, RecordReader.read_captions),
        Layout(
            "imgflip575k", "{url, post, metadata, boxes}", {"url", "post", "metadata", "boxes"},
            RecordReader.read_imgflip575k,
        ),
        Layout(
            "reddit", "{id, permalink, title, url, created_utc}", {"id", "permalink", "title", "url", "created_utc"},
            RecordReader.read_reddit,
        ),
        Layout("memefly", "{meme_name, meme_text: […]}", {"meme_name", "meme_text"}, RecordReader.read_memefly),
        Layout("template", "{template_id, template_url}", {"template_id", "template_url"}, RecordReader.read_template),
        Layout("get_memes", "{success, data: {memes: […]}}", {"success", "data"}, RecordReader.read_template_list),
    )
}  # fmt: skip
TEMPLATE_LAYOUTS = ("template", "get_memes")
# Own data has columns instead of a layout (`columns.FIELDS`).
OWN = "own"
_OWN_SHAPE = "{file_name or image_url, caption or boxes, template, …}"


def recognise(value: object) -> Layout | None:
    """Return the layout of a record, or None."""
    return next((layout for layout in LAYOUTS.values() if layout.fits(value)), None)


def known_layouts() -> str:
    """Return the names and keys of all layouts, for a message."""
    shapes = {layout.name: layout.shape for layout in LAYOUTS.values()} | {OWN: _OWN_SHAPE}
    return "; ".join(f"{name}: {shape}" for name, shape in shapes.items())
