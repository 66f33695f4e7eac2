"""A server with a feed: drawn templates, and a model that writes gibberish at once."""

import io
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from PIL import Image

from memeloom.catalog.documents import DocumentStore
from memeloom.catalog.images import inspect_image
from memeloom.catalog.records import Template
from memeloom.catalog.stores import open_blobs, open_documents
from memeloom.configs.load import load_config
from memeloom.configs.schema import Config
from memeloom.serve.http.server import serving
from tests.serve.random_model import write_random_model

TEMPLATES = 6
_SECONDS = 60


@dataclass(frozen=True)
class FeedServer:
    """A server in a thread of this process. documents: its catalog."""

    address: str
    config: Config
    documents: DocumentStore

    def client(self, **options: Any) -> httpx2.Client:
        """Return a client with a cookie jar of its own."""
        return httpx2.Client(base_url=self.address, timeout=_SECONDS, **options)

    def until_ready(self, memes: int = 30) -> list[dict[str, Any]]:
        """Wait until that many memes are ready; return a page of them."""
        end = time.monotonic() + _SECONDS
        with self.client() as client:
            while True:
                page: list[dict[str, Any]] = client.get("/feed/memes", params={"limit": memes}).json()["memes"]
                if len(page) == memes:
                    return page
                assert time.monotonic() < end
                time.sleep(0.05)

    def votes_sent(self) -> int:
        """Return how many votes the server has answered."""
        with self.client() as client:
            found = re.findall(
                r'requests_total\{method="PUT",route="/feed/[^"]*"[^ ]* ([0-9.]+)', client.get("/metrics").text
            )
        return round(sum(map(float, found)))


@contextmanager
def feed_server(folder: Path, settings: Mapping[str, Any]) -> Iterator[FeedServer]:
    """Serve a catalog of six templates in `folder`."""
    model = write_random_model(folder / "model", TEMPLATES)
    config = load_config(
        environment={},
        options={
            "store.documents": f"sqlite:///{folder}/catalog.db",
            "store.blobs": str(folder / "blobs"),
            "generate.model": str(model),
            "serve.port": 0,
            "feed.budget": "100000/minute",
            # Hot enough to repeat itself rarely.
            "generate.method": "sample",
            "generate.temperature": 4,
            "generate.max_characters": 40,
            **settings,
        },
    )
    with ExitStack() as stack:
        documents = stack.enter_context(closing(open_documents(config.store)))
        blobs = stack.enter_context(closing(open_blobs(config.store)))
        documents.upsert_templates(_template(blobs, n) for n in range(TEMPLATES))
        yield FeedServer(stack.enter_context(serving(config)), config, documents)


def picture(number: int) -> bytes:
    """Return the picture of a template: shapes that no other has."""
    image = Image.radial_gradient("L").resize((320, 200 + 40 * number)).convert("RGB")
    for place in range(12):
        x, y = (37 * place * (number + 2)) % 280, (53 * place + 29 * number * place) % image.height
        image.paste(((90 * number) % 255, (67 * place) % 255, 120), (x, y, x + 20 + 3 * place, y + 30))
    stream = io.BytesIO()
    image.save(stream, "PNG")
    return stream.getvalue()


def _template(blobs: Any, number: int) -> Template:
    data = picture(number)
    blobs.put(data)
    image = inspect_image(data, max_bytes=10**7, max_pixels=10**7)
    return Template(
        id=str(number), slug=f"template-{number}", name=f"Template {number}", box_count=2, image=image, source="toy"
    )


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FeedServer]:
    """A server that the tests of a module share."""
    with feed_server(tmp_path_factory.mktemp("feed"), {}) as server:
        server.until_ready()
        yield server
