"""Raw records are the memes that a scan reads, as JSON, from either store."""

import orjson

from memeloom.catalog.documents import DocumentStore
from memeloom.catalog.records import Meme
from memeloom.dataset.flow.memes import Facts, read_facts
from tests.catalog.test_documents import WHEN, full_meme, meme


def test_they_are_what_a_scan_reads_in_the_same_order(documents: DocumentStore) -> None:
    memes = [*(full_meme(f"imgflip:{n}") for n in range(7)), meme("plain"), meme("ünï😀", title="½ \"'\\\n\x00")]
    documents.upsert(memes)
    for batch in (1, 2, 1000):
        found = list(documents.records(batch=batch))
        assert [name for name, _ in found] == [each.id for each in documents.scan()]
        assert [Meme.model_validate_json(record) for _, record in found] == list(documents.scan())
    for (_, record), each in zip(documents.records(), documents.scan(), strict=True):
        assert orjson.loads(record) == orjson.loads(each.model_dump_json(exclude_none=True))


def test_a_dataset_reads_the_same_facts_from_each(documents: DocumentStore) -> None:
    whole = full_meme()
    documents.upsert([whole])
    ((_, record),) = documents.records()
    _, facts, template = read_facts(record, {}, "inpainted")
    assert isinstance(facts, Facts)
    assert (facts.caption.id, facts.caption.boxes, facts.caption.over_18) == (whole.id, whole.boxes, False)
    assert (facts.caption.image_key, facts.phash) == ("c" * 64, b"\xff" * 32)
    assert (facts.posted, template) == (round(WHEN.timestamp() * 1e6), "181913649")


def test_an_empty_store_has_none_and_a_change_while_reading_harms_nobody(documents: DocumentStore) -> None:
    assert list(documents.records()) == []
    documents.upsert([meme(f"{n:02}") for n in range(10)])
    reading = documents.records(batch=2)
    first = next(reading)[0]
    documents.upsert([meme("99"), meme("00", title="new")])
    assert [first, *(name for name, _ in reading)] == [f"test:{n:02}" for n in [*range(10), 99]]
