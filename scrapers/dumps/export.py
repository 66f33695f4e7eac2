"""`memeloom export`: the catalog into a dump of JSON lines."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path

from memeloom.catalog.stores import open_documents
from memeloom.configs.errors import MemeloomError
from memeloom.configs.outputs import atomic_file
from memeloom.configs.progress import SILENT, Progress
from memeloom.configs.runs import Summary
from memeloom.configs.schema import Config
from memeloom.report.format import escape_controls
from memeloom.scrapers.dumps.files import STDIN, packed_writer


def export_memes(config: Config, path: Path, progress: Progress = SILENT) -> Summary:
    """Write all memes to `path` as JSON lines ordered by id, compressed if it ends in ``.gz`` or ``.zst``.

    The write is atomic; ``-`` is standard output. `import_dumps` restores the memes exactly; pictures are not included.

    Raises:
        MemeloomError: the catalog has no memes, or the file cannot be written.
    """
    begun = time.monotonic()
    if path.is_dir():
        raise MemeloomError(f"cannot export to {path}: it is a folder; name a file, for example memes.jsonl.zst")
    written = size = 0
    with closing(open_documents(config.store, read_only=True)) as documents:
        total = documents.count()
        if not total:
            raise MemeloomError(f"nothing to export: {config.store.documents} holds no memes")
        progress.start("export", total, "memes")
        memes = documents.scan()
        with _writer(path) as write:
            while batch := [meme.model_dump_json(exclude_none=True) for meme in islice(memes, 1000)]:
                data = "\n".join([*batch, ""]).encode()
                write(data)
                size += len(data)
                written += len(batch)
                progress.advance(len(batch))
    progress.finish()
    return Summary(
        stage="export",
        counts={"memes": written, "bytes": size if path == STDIN else path.stat().st_size},
        outputs={"dump": str(path)},
        seconds={"total": time.monotonic() - begun},
    )


@contextmanager
def _writer(path: Path) -> Iterator[Callable[[bytes], object]]:
    if path != STDIN:
        with atomic_file(path) as stream, packed_writer(path, stream) as write:
            yield write
        return
    # Escape control characters for terminals; the JSON stays equal.
    out = sys.stdout.buffer
    yield lambda data: out.write("\n".join(map(escape_controls, data.decode().split("\n"))).encode())
    out.flush()
