"""What a person decides about templates: their names, which are one, and which are none. Each can be said twice."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal, TypeAlias

from memeloom.catalog.documents import DocumentStore, open_documents
from memeloom.catalog.records import Template
from memeloom.configs.errors import ConfigError, MemeloomError
from memeloom.configs.schema import Config
from memeloom.templates.merging import finish_merge, merge, point_members

State: TypeAlias = Literal["known", "found", "rejected", "merged"]


@dataclass(frozen=True, slots=True)
class Listed:
    """A template, and how many memes refer to it."""

    template: Template
    members: int

    @property
    def state(self) -> State:
        """As the record has it, or ``merged``."""
        return "merged" if self.template.merged_into else self.template.state


def list_templates(config: Config, state: State | None = None) -> list[Listed]:
    """The templates of the catalog, or those in one state; those with the most members first. Raises StoreError."""
    with _catalog(config) as documents:
        members = documents.counts().templates
        listed = (Listed(template, members.get(template.id, 0)) for template in documents.templates())
        wanted = [each for each in listed if state in (None, each.state)]
    return sorted(wanted, key=lambda each: (-each.members, each.template.id))


def template_with_id(config: Config, template_id: str) -> Listed:
    """One template.

    Raises:
        ConfigError: there is none with that id.
        StoreError: the catalog refused or failed.
    """
    with _catalog(config) as documents:
        template = _known(documents, template_id)
        return Listed(template, documents.counts().templates.get(template_id, 0))


def name_template(config: Config, template_id: str, name: str) -> Template:
    """Give a template a name: it is known from then on, even if it was rejected before. Its memes learn the name.

    Raises:
        ConfigError: there is no such template, the name is empty, or the template was merged into another.
        StoreError: the catalog refused or failed.
    """
    name = " ".join(name.split())
    if not name:
        raise ConfigError(f"{template_id}: give it a name that is not empty")
    with _catalog(config) as documents:
        _refuse_merged(_known(documents, template_id))
        named = _revised(documents, template_id, {"name": name, "state": "known"})
        point_members(documents, template_id, named)
        return named


def reject_template(config: Config, template_id: str) -> Template:
    """Say that a template is none. Its memes still tell that they share it, so that `name_template` brings it back.

    The record stays, too: what shows the picture is not to be found again.

    Raises:
        ConfigError: there is no such template, or it was merged into another.
        StoreError: the catalog refused or failed.
    """
    with _catalog(config) as documents:
        _refuse_merged(_known(documents, template_id))
        return _revised(documents, template_id, {"state": "rejected"})


def merge_template(config: Config, template_id: str, into_id: str) -> Template:
    """Say that a template is another one; its memes learn that, and it is recognised by their pictures, too.

    Returns the other one, or the one that this was merged into in its turn.

    Raises:
        ConfigError: one of them is not there, they are one, the other is rejected, or this was merged elsewhere.
        StoreError: the catalog refused or failed.
    """
    with _catalog(config) as documents:
        template, into = _known(documents, template_id), _target(documents, into_id)
        if into.state == "rejected":
            raise ConfigError(f"{into.id} is rejected: name it first (memeloom templates name {into.id} NAME)")
        if template.merged_into:
            if _target(documents, template_id).id != into.id:
                _refuse_merged(template)
            finish_merge(documents, template_id, into)
        elif template_id == into.id:
            raise ConfigError(f"{template_id} cannot be merged into itself")
        else:
            merge(documents, template_id, into)
        return into


@contextmanager
def _catalog(config: Config) -> Iterator[DocumentStore]:
    documents = open_documents(config.store)
    try:
        yield documents
    finally:
        documents.close()


def _known(documents: DocumentStore, template_id: str) -> Template:
    names: dict[str, str] = {}
    for template in documents.templates():
        if template.id == template_id:
            return template
        names |= {template.name: template.id, template.slug: template.id, template.id: template.id}
    near = get_close_matches(template_id, names, n=1)
    hint = f"did you mean {names[near[0]]}?" if near else "memeloom templates list shows them"
    raise ConfigError(f"no template has the id {template_id!r}; {hint}")


def _target(documents: DocumentStore, template_id: str) -> Template:
    """The template that `template_id` is by now."""
    passed: set[str] = set()
    while (template := _known(documents, template_id)).merged_into and template_id not in passed:
        passed.add(template_id)
        template_id = template.merged_into
    return template


def _refuse_merged(template: Template) -> None:
    if template.merged_into:
        raise ConfigError(f"{template.id} was merged into {template.merged_into}: decide about that one")


def _revised(documents: DocumentStore, template_id: str, changes: dict[str, str]) -> Template:
    revised = documents.revise_template(template_id, lambda known: known.model_copy(update=changes))
    if revised is None:
        raise MemeloomError(f"{template_id} was deleted meanwhile")
    return revised
