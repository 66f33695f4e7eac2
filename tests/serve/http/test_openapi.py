"""Requests made from the OpenAPI document, valid and not, are answered as the document says and never with a 5xx."""

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn
from fastapi.testclient import TestClient

from memeloom.configs.schema import Config
from memeloom.serve.http.app import create_app
from tests.serve.conftest import Server

# Routes that need a model, which answer 503 without one.
_MODEL = r"^/(v1/(captions|memes|batch)|v2|ai_meme)"


@pytest.fixture(scope="module")
def url(config: Config) -> Iterator[str]:
    """The address of the application on a socket."""
    # With its protocol stated, asyncio turns off Nagle's algorithm, which would delay each answer by 40 ms.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening:
        listening.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(create_app(config), log_level="error"))
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        server.should_exit = True
        thread.join(30)


def fuzz(url: str, phases: str, examples: int, folder: Path, *, exclude: str = _MODEL) -> None:
    program = Path(sys.executable).with_name("schemathesis")
    settings = Path(__file__).with_name("schemathesis.toml")
    command = [
        str(program), "--config-file", str(settings), "run", f"{url}/openapi.json", "--wait-for-schema", "30",
        "--no-color",
        "--exclude-path-regex", exclude, "--checks", "all", "--phases", phases, "--max-examples", str(examples),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=1500, check=False, cwd=folder)
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2000:]
    assert "Tested: 0" not in done.stdout


def test_no_request_breaks_the_server_or_the_document(url: str, tmp_path: Path) -> None:
    fuzz(url, "examples,coverage", 1, tmp_path)


@pytest.mark.soak
def test_many_requests_break_neither_the_server_nor_the_document(url: str, tmp_path: Path) -> None:
    fuzz(url, "examples,coverage,fuzzing", 300, tmp_path)


@pytest.mark.soak
def test_many_requests_break_no_route_of_a_server_with_a_model(server: Server, tmp_path: Path) -> None:
    # schemathesis cannot write the JSON lines of a batch.
    fuzz(server.address, "examples,coverage,fuzzing", 100, tmp_path, exclude="^/v1/batch$")


def test_every_operation_is_described(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    operations = [operation for path in document["paths"].values() for operation in path.values()]
    assert operations
    for operation in operations:
        assert operation["summary"]
        assert operation["description"]
        assert operation["tags"]


def test_an_address_with_two_routes_names_the_methods_of_both(client: TestClient) -> None:
    answer = client.delete("/images/")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, POST")
