"""The Open Inference Protocol, spoken to a real server."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest
from fastapi.testclient import TestClient

from memeloom.configs.schema import Config
from memeloom.serve.captions.models import LocalWriter
from memeloom.serve.captions.served import ServedModel, folder_version
from memeloom.serve.http.app import create_app
from memeloom.train.runtime import open_captioner
from tests.serve.conftest import Server
from tests.serve.random_model import write_random_model


@pytest.fixture(scope="module")
def http(server: Server) -> Iterator[httpx2.Client]:
    with server.client() as client:
        yield client


def inputs(texts: list[str], templates: list[str]) -> dict[str, Any]:
    named = {"text": texts, "template": templates}
    return {
        "inputs": [
            {"name": name, "shape": [len(data)], "datatype": "BYTES", "data": data} for name, data in named.items()
        ]
    }


def test_the_server_and_its_model_describe_themselves(http: httpx2.Client) -> None:
    assert http.get("/v2").json()["name"] == "memeloom"
    assert http.get("/v2/health/live").json() == {"live": True}
    assert http.get("/v2/health/ready").json() == {"ready": True}
    facts = http.get("/v2/models/causal").json()
    assert [tensor["name"] for tensor in facts["inputs"]] == ["text", "template"]
    assert http.get("/v2/models/causal/ready").json()["ready"] is True


def test_inference_returns_probabilities_of_the_next_character(http: httpx2.Client) -> None:
    body = {"id": "7", **inputs(["wo", "wow|suc"], ["doge", "8072285"])}
    found = http.post("/v2/models/causal/infer", json=body).raise_for_status().json()
    assert (found["id"], found["model_name"]) == ("7", "causal")
    probabilities, likeliest = found["outputs"]
    table = np.array(probabilities["data"]).reshape(probabilities["shape"])
    assert np.allclose(table.sum(axis=1), 1, atol=1e-4)
    assert likeliest["data"] == ["w", "h"]


def test_only_the_outputs_that_are_asked_for_are_returned(http: httpx2.Client) -> None:
    body = {**inputs(["wo"], ["doge"]), "outputs": [{"name": "likeliest"}]}
    found = http.post("/v2/models/causal/infer", json=body).json()
    assert [tensor["name"] for tensor in found["outputs"]] == ["likeliest"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"inputs": []},
        inputs(["a", "b"], ["doge"]),
        {"inputs": [inputs(["a"], ["doge"])["inputs"][0]] * 2},
        inputs(["x" * 2000], ["doge"]),
        inputs(["x" * 900, *["x"] * 63], ["doge"] * 64),
        inputs(["a"] * 300, ["doge"] * 300),
    ],
)
def test_requests_that_cannot_be_used_get_an_error_of_the_protocol(http: httpx2.Client, body: dict[str, Any]) -> None:
    answer = http.post("/v2/models/causal/infer", json=body)
    assert answer.status_code == 422
    assert set(answer.json()) == {"error"}


def test_an_unknown_model_is_404(http: httpx2.Client) -> None:
    for answer in (http.get("/v2/models/x"), http.post("/v2/models/x/infer", json=inputs(["a"], ["doge"]))):
        assert answer.status_code == 404
        assert "causal" in answer.json()["error"]


def test_a_body_that_is_not_json_gets_an_error_of_the_protocol(http: httpx2.Client) -> None:
    answer = http.post("/v2/models/causal/infer", content=b"e]\xff", headers={"Content-Type": "application/json"})
    assert (answer.status_code, set(answer.json())) == (400, {"error"})


def test_no_answer_mixes_two_models(config: Config, tmp_path: Path) -> None:
    """Requests run while the model is replaced: version, probabilities and texts of an answer are of one model."""
    texts = ["the ", "a tale|o", "ho"]
    expected = {}
    for seed in (1, 2):
        folder = write_random_model(tmp_path / str(seed), 3, seed)
        version = folder_version(folder)
        writer = LocalWriter(ServedModel.of(open_captioner(folder), version, config.dataset))
        expected[version] = writer.next_tokens(texts, ["0"] * len(texts), time.monotonic() + 60)
    folder = tmp_path / "model"
    folder.symlink_to(tmp_path / "1")
    serve = config.serve.model_copy(update={"reload_seconds": 0.01, "batch_window_ms": 10})
    generate = config.generate.model_copy(update={"model": str(folder)})
    changing = config.model_copy(update={"serve": serve, "generate": generate})
    patience = time.monotonic() + 60
    answered, answers = set[str](), 0

    def done() -> bool:
        return (answered == set(expected) and answers >= 40) or time.monotonic() > patience

    def ask(client: TestClient) -> None:
        nonlocal answers
        while not done():
            answer = client.post("/v2/models/causal/infer", json=inputs(texts, ["0"] * len(texts)))
            if answer.status_code == 503 and not answered:  # not loaded yet
                continue
            found = answer.raise_for_status().json()
            probabilities, likeliest = found["outputs"]
            of_one = expected[found["model_version"]]
            assert np.allclose(probabilities["data"], of_one.probabilities.ravel(), atol=1e-6)
            assert likeliest["data"] == of_one.likeliest
            answered.add(found["model_version"])
            answers += 1

    with TestClient(create_app(changing)) as client, ThreadPoolExecutor() as threads:
        asking = [threads.submit(ask, client) for _ in range(4)]
        number = 0
        while not done() and not any(each.done() for each in asking):
            (tmp_path / "next").symlink_to(tmp_path / str(1 + number % 2))
            (tmp_path / "next").replace(folder)
            number += 1
            time.sleep(0.03)
        for each in asking:
            each.result()
    assert answered == set(expected)
