"""The Open Inference Protocol, spoken to a real server."""

from collections.abc import Iterator
from typing import Any

import httpx2
import numpy as np
import pytest

from tests.serve.conftest import Server


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
