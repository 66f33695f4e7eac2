"""Load for a server: clients that send requests over kept connections, in a process of their own.

    python -m bench.serving_load PORT CLIENTS SECONDS [RATE | feed]

Each client asks for a caption when its last request is answered; with RATE, all clients together send this number of
requests a second, whatever the answers are. Prints JSON: latencies of answers in
seconds by status; of the feed, those of pages, 204 for one on which no meme was ready.
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


async def _answer(reader: asyncio.StreamReader) -> tuple[int, bool, bytes]:
    """Read an answer; return its status, whether the server closes the connection, and its body."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = int(head.split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
    body = await reader.readexactly(length)
    return int(head[9:12]), b"connection: close" in head, body


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
            status, closes, _ = await _answer(reader)
        except (OSError, asyncio.IncompleteReadError):
            status, closes = 0, True
        found[status].append(time.perf_counter() - started)
        if closes:
            writer.close()
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.close()


async def _person(port: int, seed: int, until: float, found: dict[int, list[float]]) -> None:
    """Scroll through the feed without a pause."""
    rng = random.Random(seed)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    seen: list[str] = []
    fields = f"Host: localhost\r\nCookie: memeloom_feed={rng.randbytes(16).hex()}\r\n"

    async def ask(method: str, path: str, body: str = "") -> tuple[int, bytes]:
        kind = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if body else ""
        writer.write(f"{method} {path} HTTP/1.1\r\n{fields}{kind}\r\n{body}".encode())
        status, _, answer = await _answer(reader)
        return status, answer

    while time.perf_counter() < until:
        started = time.perf_counter()
        status, answer = await ask("GET", f"/feed/memes?seen={''.join(each[:6] for each in seen[-1000:])}")
        memes = json.loads(answer)["memes"] if status == 200 else []
        found[204 if status == 200 and not memes else status].append(time.perf_counter() - started)
        for meme in memes:
            await ask("GET", meme["picture"])
        if memes:
            meme = rng.choice(memes)["id"]
            status, _ = await ask("PUT", f"/feed/memes/{meme}/reaction", f'{{"value": {rng.choice((-1, 1))}}}')
        else:
            await asyncio.sleep(0.1)
        seen += [meme["id"] for meme in memes]
    writer.close()


async def _scroll(port: int, people: int, seconds: float) -> None:
    found: dict[int, list[float]] = defaultdict(list)
    until = time.perf_counter() + seconds
    await asyncio.gather(*(_person(port, n, until, found) for n in range(people)))
    print(json.dumps(found))


async def _run(port: int, clients: int, seconds: float, rate: float, templates: list[str]) -> None:
    found: dict[int, list[float]] = defaultdict(list)
    until = time.perf_counter() + seconds
    pause = clients / rate if rate else 0.0
    await asyncio.gather(*(_client(port, templates, n, until, pause, found) for n in range(clients)))
    print(json.dumps(found))


def main() -> None:
    """Send the load that the command line describes; templates come on standard input, one a line."""
    port, clients, seconds, *rate = sys.argv[1:]
    if rate == ["feed"]:
        asyncio.run(_scroll(int(port), int(clients), float(seconds)))
        return
    templates = sys.stdin.read().split()
    asyncio.run(_run(int(port), int(clients), float(seconds), float(rate[0]) if rate else 0.0, templates))


if __name__ == "__main__":
    main()
