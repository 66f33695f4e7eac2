"""Which template a meme counts under, after templates were merged and rejected."""

from collections.abc import Iterable, Iterator

from memeloom.catalog.records import Meme, Template


class Standing:
    """The templates as readers see them: a merged one is the template it turned out to be, a rejected one is none.

    Memes keep naming the template that they were found to be made on; whoever reads them asks here. A chain of
    merges is followed to its last record, whose state counts. Where it runs in a circle (two runs merged two
    templates into each other) the known one stands for all of them, else the one with the lowest id.
    """

    def __init__(self, templates: Iterable[Template]) -> None:
        self._records = {template.id: template for template in templates}

    def __contains__(self, template_id: object) -> bool:
        """Whether the catalog has a record of it, usable or not."""
        return template_id in self._records

    def get(self, template_id: str) -> Template | None:
        """The template that `template_id` stands for now; None if it is rejected, or not in the catalog."""
        last = self._last(template_id)
        return None if last is None or last.state == "rejected" else last

    def applied(self, meme: Meme) -> Meme:
        """`meme` with its template as that counts now, under the catalog's own name; without it if it is rejected.

        A template that the catalog has no record of is what its meme says it is.
        """
        named = meme.template
        if named is None or named.id not in self._records:
            return meme
        now = self.get(named.id)
        if now is None:
            return meme.model_copy(update={"template": None})
        if (now.id, now.slug, now.name) == (named.id, named.slug, named.name):
            return meme
        facts = {"id": now.id, "slug": now.slug, "name": now.name}
        return meme.model_copy(update={"template": named.model_copy(update=facts)})

    def standing(self) -> Iterator[Template]:
        """Yield the templates that memes may be made on, in order of id."""
        for template_id, template in sorted(self._records.items()):
            if self.get(template_id) is template:
                yield template

    def _last(self, template_id: str) -> Template | None:
        chain: dict[str, Template] = {}
        template = self._records.get(template_id)
        while template is not None and template.id not in chain:
            chain[template.id] = template
            into = self._records.get(template.merged_into) if template.merged_into else None
            if into is None:
                return template
            template = into
        if template is None:
            return None
        ids = list(chain)
        circle = [chain[each] for each in ids[ids.index(template.id) :]]
        return min(circle, key=lambda each: (each.state != "known", each.id))
