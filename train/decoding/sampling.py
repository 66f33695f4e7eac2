"""Sampling of captions token by token, in batches."""

from collections.abc import Sequence

import numpy as np

from memeloom.train.contract import CaptionWriter, Prompt
from memeloom.train.decoding.choosers import Chooser
from memeloom.train.decoding.draft import Draft, WordFilter, WrittenCaption, rows_to_keep
from memeloom.train.decoding.rows import CaptionRows, open_rows

# Rows of one batch.
MAX_ROWS = 256


def write_captions(
    model: CaptionWriter,
    prompts: Sequence[Prompt],
    choose: Chooser,
    *,
    max_characters: int,
    rng: np.random.Generator,
    word_filter: WordFilter | None = None,
) -> list[WrittenCaption]:
    """Write one caption for each of `prompts`, which may repeat.

    A caption ends when the model ends it or closes the last box of its template, or at `max_characters` (separators and
    end included), where it loses the word that it breaks off in. Refused tokens are replaced; a caption that cannot
    continue is empty.
    """
    written: list[WrittenCaption] = []
    for first in range(0, len(prompts), MAX_ROWS):
        drafts = [Draft.begin(model, prompt, max_characters) for prompt in prompts[first : first + MAX_ROWS]]
        rows = open_rows(model, drafts, choose, rng, word_filter)
        _write_batch(model, [draft.prompt for draft in drafts], rows, choose, rng)
        written += rows.written()
    return written


def _write_batch(
    model: CaptionWriter, prompts: list[Prompt], captions: CaptionRows, choose: Chooser, rng: np.random.Generator
) -> None:
    state = model.start_decoding(prompts)
    # The caption of each row.
    at = np.arange(len(prompts))
    going = captions.going
    while going.any():
        log_probs = state.log_probs()
        # What is drawn must not depend on how many finished rows the model still has.
        rows = np.flatnonzero(going)
        of_rows = log_probs if len(rows) == len(at) else log_probs[rows]
        tokens = np.zeros(len(at), np.int64)
        tokens[rows] = captions.extend(at[rows], of_rows, choose(of_rows, rng))
        going = captions.going[at]
        if not going.any():
            break
        if (kept := rows_to_keep(going, any_number=not model.compiled)) is not None:
            state.select(kept)
            at, going, tokens = at[kept], going[kept], tokens[kept]
        state.append(tokens)
