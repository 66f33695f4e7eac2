"""`memeloom train`: Train the captioning model on a dataset."""

import click

from memeloom.cli.session import Session


@click.command(name="train", short_help="Train the captioning model on a dataset.")
@click.pass_obj
def command(session: Session) -> None:
    """Train the captioning model on a dataset.

    Goes on from the last checkpoint if there is one of the same model and dataset.
    """
    from memeloom.train.fit import train_model

    session.run("train", session.config(), train_model)
