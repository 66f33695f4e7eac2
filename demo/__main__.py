"""`python -m memeloom.demo`: serve the miniature internet and print its addresses to stderr."""

from pathlib import Path

import click

from memeloom.demo.serve_only import serve_only


@click.command()
@click.option(
    "--data", type=click.Path(path_type=Path, exists=True, file_okay=False), help="Folder of real data to serve."
)
@click.option("--memes", type=click.IntRange(min=1), help="Number of memes on Imgflip.")
def main(data: Path | None, memes: int | None) -> None:
    """Serve the miniature internet until Ctrl-C."""
    serve_only(data=data, memes=memes, settings=None, announce=lambda line: click.echo(line, err=True))


if __name__ == "__main__":
    main()
