"""Imgflip: the templates that are most used, and the memes made on each, newest first."""

from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import urlencode

from scrapy import Request
from scrapy.http import Response, TextResponse
from twisted.python.failure import Failure

from catalog.records import Meme, Template, TemplateRef
from scrapers.items import MemeItem, TemplateItem
from scrapers.pages import imgflip
from scrapers.pages.imgflip import ListedTemplate, PostedMeme
from scrapers.spiders.base import MemeSpider


class ImgflipSpider(MemeSpider):
    """API for box counts → template list → a listing a template, page after page."""

    name = "imgflip"
    essential = imgflip.UNIT

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.known: dict[str, ListedTemplate] = {}
        self.listed: set[str] = set()
        self.seen: set[str] = set()

    async def start(self) -> AsyncIterator[Request]:
        """Ask the API first: it alone knows how many text boxes a template has."""
        url = f"{self.config.crawl.imgflip.api}/get_memes"
        yield self.page(url, self.parse_api, errback=self.without_api)

    def parse_api(self, response: Response) -> Iterator[Request]:
        """Remember what the API knows of the most popular templates."""
        self.known = {template.id: template for template in imgflip.parse_api(response.body, response.url)}
        yield from self.first_pages()

    def without_api(self, failure: Failure) -> Iterator[Request]:
        """Without the API captions are still split, at every separator."""
        self.failed(failure)
        yield from self.first_pages()

    def first_pages(self) -> Iterator[Request]:
        """The listings of the named templates, or the list of the most popular ones."""
        names = self.config.crawl.imgflip.template_names
        for name in names:
            slug = name.rpartition("/")[2]
            yield self.listing(ListedTemplate(slug, slug.replace("-", " "), f"/meme/{name}"))
        if not names:
            yield self.template_list(1)

    def template_list(self, page: int) -> Request:
        """A page of the list of templates, most popular first."""
        query = urlencode({"sort": "top-all-time", "page": page})
        url = f"{self.config.crawl.imgflip.site}/memetemplates?{query}"
        return self.page(url, self.parse_templates, cb_kwargs={"page": page})

    def parse_templates(self, response: TextResponse, page: int) -> Iterator[Request]:
        """Begin the listings of this page's templates; go on while more are wanted and the list has new ones."""
        found = imgflip.parse_template_list(response.text, response.url).templates
        wanted = self.config.crawl.imgflip.templates
        fresh = [template for template in found if template.id not in self.listed]
        for template in fresh[: wanted - len(self.listed)]:
            self.listed.add(template.id)
            yield self.listing(template)
        if fresh and len(self.listed) < wanted:
            yield self.template_list(page + 1)

    def listing(self, template: ListedTemplate, page: int = 1) -> Request:
        """A page of a template's memes."""
        query = urlencode({"sort": "latest", "page": page})
        url = f"{self.config.crawl.imgflip.site}{template.path}?{query}"
        return self.page(url, self.parse_listing, cb_kwargs={"template": template, "page": page})

    def parse_listing(
        self, response: TextResponse, template: ListedTemplate, page: int
    ) -> Iterator[Request | MemeItem | TemplateItem]:
        """The memes of one page, the template itself on the first, and the next page."""
        counts = {number: known.box_count for number, known in self.known.items() if known.box_count}
        listing = imgflip.parse_listing(response.text, response.url, counts, template.id)
        self.skip(dict(listing.skipped))
        record = self.template(template, listing)
        if page == 1:
            yield from self.whole_template(record)
        fresh = [meme for meme in listing.memes if meme.key not in self.seen]
        self.session.reasons["skipped: seen before in this crawl"] += len(listing.memes) - len(fresh)
        for meme in fresh:
            self.seen.add(meme.key)
            if meme.boxes is None:
                yield self.page(meme.page_url, self.parse_meme, cb_kwargs={"template": record})
            else:
                yield self.meme(meme, record.ref())
        if fresh and listing.next_url and page < self.config.crawl.imgflip.pages_per_template:
            yield self.listing(template, page + 1)

    def parse_meme(self, response: TextResponse, template: Template) -> Iterator[MemeItem]:
        """The own page of a meme whose listing did not state a caption."""
        meme = imgflip.parse_meme(response.text, response.url, template.box_count)
        if meme is None:
            self.skip({"video or several pictures": 1})
        else:
            yield self.meme(meme, template.ref())

    def template(self, template: ListedTemplate, listing: imgflip.Listing) -> Template:
        """What list, API and listing know of a template, together."""
        number = listing.template_id or template.id
        api = self.known.get(number)
        return Template(
            id=number,
            slug=template.slug,
            name=api.name if api else template.name,
            alt_names=listing.alt_names,
            box_count=api.box_count if api else None,
            image_url=(api.image_url if api else None) or template.image_url,
            source=self.name,
        )

    def whole_template(self, record: Template) -> Iterator[Request | TemplateItem]:
        """The record, or, for a template that the API does not know, its own page first."""
        if record.id in self.known:
            yield TemplateItem(record)
            return
        url = f"{self.config.crawl.imgflip.site}/memetemplate/{record.id}"
        yield self.page(url, self.parse_template, errback=self.without_template, cb_kwargs={"record": record})

    def without_template(self, failure: Failure) -> Iterator[TemplateItem]:
        """A template whose own page cannot be had is kept as the list shows it."""
        self.failed(failure)
        yield TemplateItem(failure.request.cb_kwargs["record"])  # type: ignore[attr-defined]

    def parse_template(self, response: TextResponse, record: Template) -> Iterator[TemplateItem]:
        """A template's own page names it, and shows its picture whole."""
        page = imgflip.parse_template(response.text, response.url)
        names = page.alt_names or record.alt_names
        yield TemplateItem(
            record.model_copy(update={"name": page.name, "image_url": page.image_url, "alt_names": names})
        )

    def meme(self, meme: PostedMeme, template: TemplateRef) -> MemeItem:
        """The record of a meme."""
        return MemeItem(
            Meme(
                id=f"{self.name}:{meme.key}",
                source=self.name,
                page_url=meme.page_url,
                image_url=meme.image_url,
                template=template,
                boxes=meme.boxes or (),
                title=meme.title,
                score=meme.votes,
                views=meme.views,
                author=self.author(meme.author),
                fetched_at=self.now(),
            )
        )
