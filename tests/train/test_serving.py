"""Templates are found by their names inside a graph as outside."""

import tensorflow as tf

from memeloom.dataset.manifest import DatasetTemplate
from memeloom.train.export import lookup, template_names
from tests.train.writing_table import template


def named(template_id: str, name: str) -> DatasetTemplate:
    return template(1, template_id).model_copy(update={"name": name})


def found(templates: list[DatasetTemplate], *names: str) -> list[str]:
    """What a graph finds under these names."""
    table = lookup(template_names(templates), "")
    ids: list[bytes] = table.lookup(tf.strings.lower(list(names), encoding="utf-8")).numpy().tolist()
    return [each.decode() for each in ids]


def test_a_template_is_found_by_its_name_in_any_case() -> None:
    templates = [named("1", "Straße"), named("2", "İstanbul ΣΑΣ"), named("3", "Doge")]
    names = ("Straße", "STRASSE", "straße", "İstanbul ΣΑΣ", "DOGE", "3", "Doge?")
    assert found(templates, *names) == ["1", "1", "1", "2", "3", "3", ""]


def test_of_names_that_differ_in_sharp_s_alone_each_finds_its_own() -> None:
    templates = [named("1", "Straße"), named("2", "Strasse")]
    assert found(templates, "Straße", "Strasse") == ["1", "2"]


def test_the_most_frequent_template_wins_a_name_and_an_id_goes_before_a_name() -> None:
    templates = [named("1", "Doge"), named("2", "DOGE"), named("doge-3", "1")]
    assert found(templates, "doge", "1", "doge-3") == ["1", "1", "doge-3"]
