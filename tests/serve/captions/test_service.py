"""Requests for captions: written together, bounded, dropped when cancelled or late."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest

from memeloom.configs.errors import MemeloomError
from memeloom.configs.load import load_config
from memeloom.configs.schema import Config
from memeloom.serve.captions.batch import write_batch
from memeloom.serve.captions.errors import (
    CaptionsRefused,
    CaptionsUnavailable,
    DeadlineExceeded,
    NoCaption,
    NoModel,
    QueueFull,
    UnknownModel,
    UnknownTemplate,
)
from memeloom.serve.captions.models import LocalWriter
from memeloom.serve.captions.request import CaptionRequest
from memeloom.serve.captions.served import ServedModel
from memeloom.serve.captions.service import CaptionService, NextTokens, Result, Writer
from tests.train.writing_table import TableCaptioner

WORDS = ("|", " so", " very", " much", " wow", " shit")


@pytest.fixture(scope="module")
def config() -> Config:
    return load_config(environment={})


@pytest.fixture(scope="module")
def model() -> TableCaptioner:
    return TableCaptioner.drawn(WORDS, seed=3, names=("61533", "8072285"))


def request(config: Config, template: str = "61533", **changes: object) -> CaptionRequest:
    best_of = changes.pop("best_of", changes.get("captions", 1))
    assert isinstance(best_of, int)
    settings = config.generate.model_copy(update={"method": "sample", "captions": 1, **changes})
    return CaptionRequest(template, settings, best_of)


class Paced:
    """A real writer whose batches wait for a signal, and are noted."""

    def __init__(self, writer: LocalWriter) -> None:
        self.writer, self.served, self.go = writer, writer.served, threading.Event()
        self.batches: list[list[CaptionRequest]] = []
        self.begun = threading.Semaphore(0)

    def write(self, requests: Sequence[CaptionRequest], deadline: float) -> list[Result]:
        self.batches.append(list(requests))
        self.begun.release()
        assert self.go.wait(10)
        return self.writer.write(requests, deadline)

    def next_tokens(self, texts: Sequence[str], templates: Sequence[str], deadline: float) -> NextTokens:
        return self.writer.next_tokens(texts, templates, deadline)


@pytest.fixture
def paced(config: Config, model: TableCaptioner) -> Paced:
    return Paced(LocalWriter(ServedModel.of(model, "1", config.dataset)))


@pytest.fixture
def opened(config: Config, paced: Paced) -> Iterator[Callable[..., CaptionService]]:
    services = []

    def open_service(writer: Writer = paced, **changes: object) -> CaptionService:
        services.append(CaptionService(config.serve.model_copy(update=changes), lambda: writer))
        return services[-1]

    yield open_service
    paced.go.set()
    for service in services:
        service.close()


def soon() -> float:
    return time.monotonic() + 20


def test_requests_that_wait_are_written_in_one_batch(
    config: Config, opened: Callable[..., CaptionService], paced: Paced
) -> None:
    service = opened(batch_window_ms=0)
    futures = [service.submit(request(config), soon())]
    assert paced.begun.acquire(timeout=10)
    futures += [service.submit(request(config, "8072285"), soon()) for _ in range(5)]
    paced.go.set()
    written = [future.result(10) for future in futures]
    assert [len(batch) for batch in paced.batches] == [1, 5]
    assert {each.captions[0].template.id for each in written[1:]} == {"8072285"}


def test_a_full_queue_refuses_and_says_when_to_try_again(
    config: Config, opened: Callable[..., CaptionService], paced: Paced
) -> None:
    service = opened(batch_window_ms=0, caption_queue=4)
    service.submit(request(config), soon())
    assert paced.begun.acquire(timeout=10)
    waiting = service.submit(request(config, captions=4), soon())
    with pytest.raises(QueueFull) as refused:
        service.submit(request(config), soon())
    assert 1 <= refused.value.retry_after <= 60
    waiting.cancel()
    service.submit(request(config), soon())


def test_cancelled_and_late_requests_are_never_written(
    config: Config, opened: Callable[..., CaptionService], paced: Paced
) -> None:
    service = opened(batch_window_ms=0)
    first = service.submit(request(config), soon())
    assert paced.begun.acquire(timeout=10)
    cancelled = service.submit(request(config, captions=2), soon())
    late = service.submit(request(config, captions=3), time.monotonic())
    kept = service.submit(request(config), soon())
    cancelled.cancel()
    paced.go.set()
    assert first.result(10).captions
    assert kept.result(10).captions
    with pytest.raises(DeadlineExceeded):
        late.result(10)
    assert [[each.settings.captions for each in batch] for batch in paced.batches] == [[1], [1]]


def test_a_batch_has_at_most_its_size(config: Config, opened: Callable[..., CaptionService], paced: Paced) -> None:
    service = opened(batch_window_ms=0, batch_size=4)
    futures = [service.submit(request(config), soon())]
    assert paced.begun.acquire(timeout=10)
    futures += [service.submit(request(config, captions=3), soon()) for _ in range(3)]
    paced.go.set()
    for future in futures:
        future.result(10)
    assert [sum(each.rows for each in batch) for batch in paced.batches] == [1, 3, 3, 3]


def test_a_single_client_waits_for_no_others(
    config: Config, opened: Callable[..., CaptionService], paced: Paced
) -> None:
    paced.go.set()
    service = opened(batch_window_ms=1000)
    started = time.monotonic()
    for _ in range(5):
        assert service.submit(request(config), soon()).result(10).captions
    assert time.monotonic() - started < 1


def test_the_clients_of_a_batch_are_waited_for_when_it_ends(
    config: Config, opened: Callable[..., CaptionService], paced: Paced
) -> None:
    """All of them ask again: the first must not be written alone while the others wait for it."""
    service = opened(batch_window_ms=1000, batch_size=4)
    futures = [service.submit(request(config), soon())]
    assert paced.begun.acquire(timeout=10)
    paced.go.set()
    futures += [service.submit(request(config), soon()) for _ in range(4)]
    for future in futures:
        future.result(10)
    again = []
    for _ in range(4):
        again.append(service.submit(request(config), soon()))
        time.sleep(0.02)
    for future in again:
        future.result(10)
    assert [len(batch) for batch in paced.batches] == [1, 4, 4]


def test_an_error_of_the_model_fails_its_batch_only(
    config: Config, model: TableCaptioner, opened: Callable[..., CaptionService]
) -> None:
    class Broken:
        served = ServedModel.of(model, "1", config.dataset)
        calls = 0

        def write(self, requests: Sequence[CaptionRequest], deadline: float) -> list[Result]:
            self.calls += 1
            raise NoModel("gone") if self.calls == 1 else ValueError("broken")

        def next_tokens(self, texts: Sequence[str], templates: Sequence[str], deadline: float) -> NextTokens:
            raise NotImplementedError

    service = opened(Broken())
    with pytest.raises(NoModel):
        service.submit(request(config), soon()).result(10)
    with pytest.raises(ValueError, match="broken"):
        service.submit(request(config), soon()).result(10)
    assert service.call(lambda _: "fine", 1, soon()).result(10) == "fine"


def test_an_error_of_a_call_fails_that_call_only(
    config: Config, opened: Callable[..., CaptionService], paced: Paced
) -> None:
    service = opened(batch_window_ms=0)
    first = service.submit(request(config), soon())
    assert paced.begun.acquire(timeout=10)
    broken, fine = (service.call(call, 1, soon()) for call in (lambda _: 1 // 0, lambda _: "fine"))
    paced.go.set()
    assert first.result(10).captions
    with pytest.raises(ZeroDivisionError):
        broken.result(10)
    assert fine.result(10) == "fine"


def test_a_closed_service_refuses_what_waits(
    config: Config, opened: Callable[..., CaptionService], paced: Paced
) -> None:
    service = opened(batch_window_ms=0)
    begun = service.submit(request(config), soon())
    assert paced.begun.acquire(timeout=10)
    waiting = service.submit(request(config), soon())
    closing = threading.Thread(target=service.close)
    closing.start()
    with pytest.raises(CaptionsUnavailable, match="shutting down"):
        waiting.result(10)
    paced.go.set()
    closing.join(10)
    assert begun.result(10).captions
    with pytest.raises(CaptionsUnavailable):
        service.submit(request(config), soon())


def write(config: Config, model: TableCaptioner, *requests: CaptionRequest) -> list[Result]:
    return write_batch(ServedModel.of(model, "1", config.dataset), requests)


def test_a_seed_gives_the_same_captions_whatever_else_is_asked_for(config: Config, model: TableCaptioner) -> None:
    seeded = request(config, captions=3, seed=5)
    (alone,) = write(config, model, seeded)
    _, among, _ = write(config, model, request(config, captions=4), seeded, request(config, temperature=2.0))
    assert alone == among


def test_requests_with_the_same_settings_share_a_batch_and_others_do_not(config: Config) -> None:
    model = TableCaptioner.drawn(WORDS, seed=3)
    write(config, model, *[request(config) for _ in range(6)], request(config, temperature=0.5))
    assert max(model.steps) == 6


def test_best_of_returns_the_likeliest(config: Config, model: TableCaptioner) -> None:
    (chosen,) = write(config, model, request(config, captions=2, best_of=12))
    assert isinstance(chosen, list)
    scores = [caption.score for caption in chosen]
    assert len(scores) == 2
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("method", ["greedy", "threshold", "sample", "beam", "sampled-beam"])
def test_each_method_writes_different_captions(config: Config, model: TableCaptioner, method: str) -> None:
    (found,) = write(config, model, request(config, captions=3, method=method))
    assert isinstance(found, list)
    assert len({caption.texts for caption in found}) == (1 if method == "greedy" else 3)


def test_safe_captions_have_no_refused_word(config: Config) -> None:
    model = TableCaptioner.drawn(WORDS, seed=8)
    loose, safe = write(
        config, model, request(config, captions=20, safe=False), request(config, captions=20, safe=True)
    )
    assert isinstance(loose, list)
    assert isinstance(safe, list)
    assert any("shit" in text for caption in loose for text in caption.texts)
    assert not any("shit" in text for caption in safe for text in caption.texts)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"start": "a|b|"}, "start"),
        ({"start": "x" * 100}, "start"),
        ({"start": " shit ", "safe": True}, "start"),
    ],
)
def test_a_request_that_cannot_be_written_names_its_field(
    config: Config, model: TableCaptioner, changes: dict[str, object], field: str
) -> None:
    refused, written = write(config, model, request(config, "61533", **changes), request(config))
    assert isinstance(refused, CaptionsRefused)
    assert refused.field == field
    assert isinstance(written, list)


def test_an_unknown_template_and_another_model_are_refused(config: Config, model: TableCaptioner) -> None:
    unknown, another, kind, version = write(
        config, model, request(config, "6153"),
        *(replace(request(config), model=name) for name in ("show-and-tell", "causal", "1")),
    )  # fmt: skip
    assert isinstance(unknown, UnknownTemplate)
    assert isinstance(another, UnknownModel)
    assert (unknown.field, another.field) == ("template", "model")
    assert isinstance(kind, list)
    assert isinstance(version, list)


def test_a_picture_is_refused_by_a_model_that_takes_none(config: Config, model: TableCaptioner) -> None:
    wanted = request(config)
    seen = CaptionRequest("photo", wanted.settings, 1, np.zeros((4, 4, 3), np.uint8))
    (refused,) = write(config, model, seen)
    assert isinstance(refused, CaptionsRefused)
    assert refused.field == "image"


def test_only_empty_captions_are_an_error(config: Config) -> None:
    tables = {"61533": np.log(np.full((12, 2, 1), 1.0, np.float32))}
    (found,) = write(config, TableCaptioner(("|",), tables), request(config))
    assert isinstance(found, NoCaption)
    assert isinstance(found, MemeloomError)
