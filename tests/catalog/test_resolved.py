"""Which template a meme counts under, after templates were merged and rejected."""

from typing import Any

import pytest

from memeloom.catalog.records import Meme, Template, TemplateRef
from memeloom.catalog.resolved import ResolvedTemplates


def template(template_id: str, into: str | None = None, **facts: Any) -> Template:
    return Template(
        **{"id": template_id, "slug": f"slug-{template_id}", "name": f"Name {template_id}", "source": "test",
           "merged_into": into, **facts},
    )  # fmt: skip


def meme_on(template_id: str | None) -> Meme:
    ref = TemplateRef(id=template_id, slug="old", name="Old", known="match", distance=12) if template_id else None
    return Meme(id="test:1", source="test", template=ref)


def now(resolved: ResolvedTemplates, template_id: str | None) -> str | None:
    ref = resolved.resolve(meme_on(template_id)).template
    return ref.id if ref else None


def test_an_unmerged_template_resolves_to_itself_with_the_name_in_the_catalog() -> None:
    resolved = ResolvedTemplates([template("1"), template("2", state="found")])
    applied = resolved.resolve(meme_on("1"))
    assert applied.template == TemplateRef(id="1", slug="slug-1", name="Name 1", known="match", distance=12)
    assert resolved.resolve(applied) is applied, "nothing to change, nothing copied"
    assert [each.id for each in resolved.usable()] == ["1", "2"]


def test_a_meme_without_a_template_or_on_one_that_the_catalog_lacks_stays_as_it_is() -> None:
    resolved = ResolvedTemplates([template("1")])
    for meme in (meme_on(None), meme_on("elsewhere")):
        assert resolved.resolve(meme) is meme
    assert resolved.get("elsewhere") is None
    assert "elsewhere" not in resolved
    assert "1" in resolved


def test_a_merged_template_resolves_to_the_last_of_the_chain() -> None:
    resolved = ResolvedTemplates([template("a", "b"), template("b", "c"), template("c"), template("d", "c")])
    assert {now(resolved, each) for each in "abcd"} == {"c"}
    assert [each.id for each in resolved.usable()] == ["c"]
    resolved = ResolvedTemplates([template("a", "b", state="rejected"), template("b"), template("d", "gone")])
    assert now(resolved, "a") == "b", "first rejected, then merged"
    assert now(resolved, "d") == "d", "merged into one that is gone"


def test_rejected_templates_and_those_merged_into_them_resolve_to_none() -> None:
    resolved = ResolvedTemplates([template("a", "b"), template("b", state="rejected"), template("c")])
    assert (now(resolved, "a"), now(resolved, "b"), now(resolved, "c")) == (None, None, "c")
    assert (resolved.get("a"), resolved.get("b")) == (None, None)
    assert "b" in resolved, "the catalog knows it, as what it is"
    assert [each.id for each in resolved.usable()] == ["c"]


@pytest.mark.parametrize(
    ("records", "stands"),
    [
        ([template("a", "a")], "a"),
        ([template("a", "b"), template("b", "a")], "a"),
        ([template("a", "b", state="found"), template("b", "a")], "b"),
        ([template("a", "b", state="found"), template("b", "c"), template("c", "a")], "b"),
    ],
    ids=["itself", "lowest id", "known before found", "lowest known id"],
)
def test_all_templates_of_a_cycle_resolve_to_one(records: list[Template], stands: str) -> None:
    outside = template("z", records[-1].id)
    resolved = ResolvedTemplates([*records, outside])
    assert {now(resolved, each.id) for each in (*records, outside)} == {stands}
    assert [each.id for each in resolved.usable()] == [stands]
