"""`python -m memeloom.demo`: serve the miniature internet and print its addresses to stderr."""

from pathlib import Path

import click

from memeloom.demo.internet import serve_forever


@click.command()
@click.option(
    "--data", type=click.Path(path_type=Path, exists=True, file_okay=False), help="Folder of real data to serve."
)
@click.option("--memes", type=click.IntRange(min=1), help="Number of memes on Imgflip.")
def main(data: Path | None, memes: int | None) -> None:
    """Serve the miniature internet until Ctrl-C."""
    serve_forever(data=data, memes=memes, announce=lambda line: click.echo(line, err=True))


if __name__ == "__main__":
    main()
