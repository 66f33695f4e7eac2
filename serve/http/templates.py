"""Templates: found by id, slug or name, with the nearest names of unknown ones, and what routes ask about them."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Self

from memeloom.catalog.documents import DocumentStore
from memeloom.catalog.records import Template
from memeloom.catalog.resolved import ResolvedTemplates
from memeloom.serve.http.problems import Problem

_SEPARATORS = re.compile(r"[\W_]+")
_MOST_CHARACTERS = 100
# Names that share most trigrams with a text; only these are compared letter by letter.
_CANDIDATES = 30


class TemplateLookup:
    """The usable templates of a catalog that have a picture, as of one moment. It never changes.

    Args:
        templates: all templates of the catalog; merged and rejected ones are resolved here.
        memes: number of memes by template id.
    """

    def __init__(self, templates: Iterable[Template], memes: Mapping[str, int]) -> None:
        known = list(templates)
        resolved = ResolvedTemplates(known)
        self._templates = {template.id: template for template in resolved.usable() if template.picture is not None}
        self._memes = memes
        self._keys: dict[str, str] = {}
        for name in (_ids, _slugs, _names):
            for template in known:
                last = resolved.get(template.id)
                if last is not None and last.id in self._templates:
                    for key in name(template):
                        self._keys.setdefault(key, last.id)
        self._trigrams: defaultdict[str, list[str]] = defaultdict(list)
        for key in self._keys:
            for trigram in _trigrams(key):
                self._trigrams[trigram].append(key)

    @classmethod
    def read(cls, documents: DocumentStore) -> Self:
        """Read the templates of a catalog. Raises StoreError."""
        return cls(documents.templates(), documents.counts().templates)

    def __len__(self) -> int:
        return len(self._templates)

    def all(self) -> list[Template]:
        """Return all templates in order of id."""
        return list(self._templates.values())

    def popular(self, n: int) -> list[Template]:
        """Return the `n` templates with the most memes."""
        return sorted(self._templates.values(), key=lambda each: (-self.memes(each), each.name))[:n]

    def memes(self, template: Template) -> int:
        """Return the number of memes on a template."""
        return self._memes.get(template.id, 0)

    def name_of(self, template: Template) -> str:
        """Return the template's name in addresses: its slug, or its id if another template has that slug."""
        slug = template.slug
        return slug if "/" not in slug and self._keys.get(slug) == template.id else template.id

    def find(self, name: str) -> Template | None:
        """Return the template with this id, slug or name; upper case and punctuation of names do not matter."""
        found = self._keys.get(name) or self._keys.get(_plain(name[:_MOST_CHARACTERS]))
        return None if found is None else self._templates[found]

    def nearest(self, name: str, n: int = 3) -> list[str]:
        """Return the slugs of up to `n` templates whose names resemble `name`, or have it as a word, nearest first."""
        wanted = _plain(name[:_MOST_CHARACTERS])
        shared = Counter(key for trigram in _trigrams(wanted) for key in self._trigrams.get(trigram, ()))
        candidates = [key for key, _ in shared.most_common(_CANDIDATES)]
        near = get_close_matches(wanted, candidates, n=_CANDIDATES, cutoff=0.5)
        near += [key for key in candidates if wanted and wanted in key.split("-")]
        return list(dict.fromkeys(self._templates[self._keys[key]].slug for key in near))[:n]

    def matching(self, text: str) -> list[Template]:
        """Return the templates whose id, slug or names contain `text`, upper or lower case, in order of id."""
        wanted = text[:_MOST_CHARACTERS].casefold()
        return [each for each in self._templates.values() if wanted in _searched(each)]


def find_template(lookup: TemplateLookup, name: str) -> Template:
    """Return the template that `name` means. Raises Problem: 404 with the nearest names."""
    found = lookup.find(name)
    if found is None:
        near = lookup.nearest(name)
        hint = f" (did you mean {' or '.join(map(repr, near))}?)" if near else ""
        detail = f"no such template: {name[:80]!r}{hint}"
        raise Problem(404, None, detail, "template", nearest=near, error=detail)
    return found


def capacity(template: Template) -> int:
    """Return the number of lines that a template takes."""
    return max(len(template.boxes), template.box_count or 0) or 2


def is_animated(template: Template) -> bool:
    """Return whether the template's picture moves."""
    return template.picture is not None and template.picture.frames is not None


def moving_or(template: Template, still: str) -> str:
    """Return ``gif`` for a template whose picture moves, else `still`."""
    return "gif" if is_animated(template) else still


def _ids(template: Template) -> list[str]:
    return [template.id]


def _slugs(template: Template) -> list[str]:
    return [template.slug]


def _names(template: Template) -> list[str]:
    return [_plain(name) for name in (template.slug, template.name, *template.alt_names)]


def _plain(name: str) -> str:
    return _SEPARATORS.sub("-", name.casefold()).strip("-")


def _searched(template: Template) -> str:
    return "\n".join((template.id, template.slug, template.name, *template.alt_names)).casefold()


def _trigrams(key: str) -> set[str]:
    padded = f" {key} "
    return {padded[n : n + 3] for n in range(len(padded) - 2)}
