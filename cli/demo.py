"""`memeloom demo`: the whole way, against a miniature internet on this machine."""

from __future__ import annotations

import time
from pathlib import Path

import click

from memeloom.cli.session import Session


@click.command(short_help="Walk the whole way against a miniature internet.")
@click.option("--folder", type=click.Path(path_type=Path, file_okay=False), default="data/demo", show_default=True)
@click.option(
    "--data",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Serve these real captions and templates instead of the demo's own.",
)
@click.option("--memes", type=click.IntRange(min=12), default=3600, show_default=True, help="Memes on its Imgflip.")
@click.option("--serve", is_flag=True, help="Only serve the miniature internet, until Ctrl-C.")
@click.pass_obj
def command(session: Session, folder: Path, data: Path | None, memes: int, serve: bool) -> None:
    """Crawl, recognise templates, read, build a dataset, train and generate; all of it on loopback."""
    from memeloom.cli.generate import show_and_draw
    from memeloom.demo.internet import Internet, serve_forever
    from memeloom.demo.run import PICTURE, demo_config, fresh_folder, stages

    if serve:
        serve_forever(data=data, memes=memes, announce=click.echo)
        return
    fresh_folder(folder)
    clock = time.perf_counter()
    with Internet(data=data, memes=memes) as internet:
        config = demo_config(internet, folder, session.overrides)
        seconds = {}
        for name, work in stages():
            summary = session.run(name, config, work)
            seconds[name] = summary.seconds["total"]
    started = time.perf_counter()
    show_and_draw(config)
    seconds["generate"] = time.perf_counter() - started
    _close(seconds, time.perf_counter() - clock, folder / PICTURE)


def _close(seconds: dict[str, float], total: float, picture: Path) -> None:
    from rich.table import Table

    from memeloom.cli.summary import console, duration

    table = Table(title=f"The whole way in {duration(total)}", title_justify="left", title_style="bold green")
    table.add_column("stage")
    table.add_column("time", justify="right")
    table.add_column("")
    longest = max(seconds.values())
    for name, taken in seconds.items():
        table.add_row(name, duration(taken), "█" * max(1, round(24 * taken / longest)))
    out = console()
    out.print(table)
    out.print(f"Look at what it learned to say: [bold]{picture}[/]", soft_wrap=True)
