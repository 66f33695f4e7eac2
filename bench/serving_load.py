"""Load for a server: clients that send requests over kept connections, in a process of their own.

    python -m bench.serving_load PORT CLIENTS SECONDS [RATE]

Each client asks for a caption when its last request is answered; with RATE, all clients together send this number of
requests a second, whatever the answers are. Prints JSON: latencies of answers in seconds by status.
"""

import asyncio
import json
import random
import sys
import time
from collections import defaultdict


def caption_request(rng: random.Random, templates: list[str]) -> bytes:
    """Return a request for one caption."""
    body = json.dumps({"template": rng.choice(templates)})
    head = "POST /v1/captions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode()


async def _answer(reader: asyncio.StreamReader) -> tuple[int, bool]:
    """Read an answer; return its status, and whether the server closes the connection."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = int(head.split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
    await reader.readexactly(length)
    return int(head[9:12]), b"connection: close" in head


async def _client(
    port: int, templates: list[str], seed: int, until: float, pause: float, found: dict[int, list[float]]
) -> None:
    rng = random.Random(seed)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    due = time.perf_counter() + pause * rng.random()
    while (now := time.perf_counter()) < until:
        if pause:
            await asyncio.sleep(max(0.0, due - now))
            due = max(due + pause, time.perf_counter() - pause)
        started = time.perf_counter()
        try:
            writer.write(caption_request(rng, templates))
            status, closes = await _answer(reader)
        except (OSError, asyncio.IncompleteReadError):
            status, closes = 0, True
        found[status].append(time.perf_counter() - started)
        if closes:
            writer.close()
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.close()


async def _run(port: int, clients: int, seconds: float, rate: float, templates: list[str]) -> None:
    found: dict[int, list[float]] = defaultdict(list)
    until = time.perf_counter() + seconds
    pause = clients / rate if rate else 0.0
    await asyncio.gather(*(_client(port, templates, n, until, pause, found) for n in range(clients)))
    print(json.dumps(found))


def main() -> None:
    """Send the load that the command line describes; templates come on standard input, one a line."""
    port, clients, seconds, *rate = sys.argv[1:]
    templates = sys.stdin.read().split()
    asyncio.run(_run(int(port), int(clients), float(seconds), float(rate[0]) if rate else 0.0, templates))


if __name__ == "__main__":
    main()
