"""Which template a meme counts under, after templates were merged and rejected."""

from collections.abc import Iterable, Iterator

from memeloom.catalog.records import Meme, Template


class ResolvedTemplates:
    """The templates with merges and rejections applied.

    Memes keep the id they were matched to; readers resolve it here. The last record of a chain of merges counts. In a
    cycle (two concurrent merges) the known template counts, else the one with the lowest id.
    """

    def __init__(self, templates: Iterable[Template]) -> None:
        self._records = {template.id: template for template in templates}

    def __contains__(self, template_id: object) -> bool:
        """Return True if the catalog has a record of it, usable or not."""
        return template_id in self._records

    def get(self, template_id: str) -> Template | None:
        """Return the template that `template_id` counts as; None if it is rejected or unknown."""
        last = self._last(template_id)
        return None if last is None or last.state == "rejected" else last

    def resolve(self, meme: Meme) -> Meme:
        """Return `meme` with its resolved template: None if rejected, unchanged if the catalog has no record."""
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

    def usable(self) -> Iterator[Template]:
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
        cycle = [chain[each] for each in ids[ids.index(template.id) :]]
        return min(cycle, key=lambda each: (each.state != "known", each.id))
