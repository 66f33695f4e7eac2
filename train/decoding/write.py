"""Writing captions token by token, many at once."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from memeloom.train.contract import Captioner, Prompt
from memeloom.train.decoding.choose import Chooser
from memeloom.train.decoding.draft import Draft, Written, worth_keeping
from memeloom.train.decoding.safe import TRIES, Censor

# Rows of one sheet.
MOST_ROWS = 256


def write_captions(
    model: Captioner,
    prompts: Sequence[Prompt],
    choose: Chooser,
    *,
    max_characters: int,
    rng: np.random.Generator,
    censor: Censor | None = None,
) -> list[Written]:
    """One caption for each of `prompts`, which may repeat.

    A caption ends when all boxes of its template are closed, or at `max_characters` (separators counted); what is
    open then is closed there, and the boxes left are empty. A token that `censor` refuses is chosen anew without it;
    a caption that cannot go on so comes out empty.
    """
    done: list[Written] = []
    for first in range(0, len(prompts), MOST_ROWS):
        drafts = [Draft.begun(model, prompt, max_characters) for prompt in prompts[first : first + MOST_ROWS]]
        _write_sheet(model, drafts, choose, rng, censor)
        done += [draft.written() for draft in drafts]
    return done


def _write_sheet(
    model: Captioner, drafts: list[Draft], choose: Chooser, rng: np.random.Generator, censor: Censor | None
) -> None:
    """Go on with all `drafts`, in place, until they are done."""
    sheet = model.open_sheet([draft.prompt for draft in drafts])
    # The draft that stands in each row of the sheet.
    at = np.arange(len(drafts))
    going = np.array([not draft.done for draft in drafts])
    while going.any():
        scores = sheet.scores()
        tokens = choose(scores, rng)
        for row in np.flatnonzero(going):
            drafts[at[row]], tokens[row] = _longer(drafts[at[row]], scores[row], int(tokens[row]), choose, rng, censor)
        going = np.array([not drafts[number].done for number in at])
        if not going.any():
            break
        if (kept := worth_keeping(going)) is not None:
            sheet.keep(kept)
            at, going, tokens = at[kept], going[kept], tokens[kept]
        sheet.append(tokens)


def _longer(
    draft: Draft,
    scores: NDArray[np.float32],
    token: int,
    choose: Chooser,
    rng: np.random.Generator,
    censor: Censor | None,
) -> tuple[Draft, int]:
    """`draft` with `token`, or another if that is refused, and which it was; abandoned if too many are.

    scores: log-probabilities, (tokens,).
    """
    left = scores
    for _ in range(TRIES):
        longer = draft.extended(token, float(scores[token]))
        if censor is None or censor.allows(longer):
            return longer, token
        left = np.where(np.arange(len(left)) == token, np.float32(-np.inf), left)
        if not np.isfinite(left).any():
            break
        token = int(choose(left[np.newaxis], rng)[0])
    return draft.abandoned(), token
