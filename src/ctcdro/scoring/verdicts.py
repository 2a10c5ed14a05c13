"""What limits each language of a model: verdicts from its errors on training and development data.

A verdict needs the text, the loss and the hypothesis of a sample of training utterances, and the CER on the development
set, all of the same model in evaluation mode. Each language is compared only with itself, so languages with few
characters per second or many different characters are judged by the same rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

LOW_CER = 0.05
"""A CER up to this is low, on training data and on the development set."""

OVERFIT_RATIO = 3.0
"""A language is overfit if its development CER is more than this multiple of its training CER, and not low."""

NOT_LEARNED_CER = 0.8
"""A language is not learned yet if its training CER is above this. Early in training, a model predicts only blanks, and
then a few frequent characters in every utterance. A CER above 1 means insertions."""

SUSPICIOUS_DEVIATIONS = 2.5
"""A training utterance is suspicious if its loss per character is this many standard deviations above the median of its
language, on a logarithmic scale. The deviation is estimated from the median absolute deviation, which a minority of
wrong transcripts does not affect."""

LABEL_ERROR_SHARE = 0.1
"""A language has label errors if at least this share of its training utterances is suspicious."""

MIN_UTTERANCES = 20
"""Suspicious utterances are looked for among at least this many of a language."""


@dataclass(frozen=True)
class Verdict:
    title: str
    meaning: str
    advice: str


VERDICTS = {
    "not-learned": Verdict(
        "not learned yet",
        "the model recognizes almost nothing, even on training data",
        "Train longer, and check the learning rate and the transcripts.",
    ),
    "label-errors": Verdict(
        "label errors",
        "some transcripts contradict the audio: the model fits the other training utterances",
        "Listen to the suspicious utterances, and correct or drop them. More weight will not help.",
    ),
    "overfit": Verdict(
        "overfit",
        "the development error is far above the training error",
        "Add data, augmentation or regularization. More weight will not help.",
    ),
    "underfit": Verdict(
        "underfit",
        "the training error is high, and not far below the development error",
        "More weight, longer training or a larger model can help.",
    ),
    "good-fit": Verdict("good fit", "the training error is low, and the development error not far above it", ""),
}
"""By the names in diagnosis.json."""


@dataclass(frozen=True)
class TrainingUtterance:
    """A training utterance that a model has decoded."""

    id: str
    where: str
    """File and line."""
    text: str
    hypothesis: str
    num_edits: int
    num_characters: int
    """Characters of the text."""
    loss: float

    @property
    def loss_per_character(self) -> float:
        return self.loss / max(1, self.num_characters)


def training_cer(utterances: Sequence[TrainingUtterance]) -> float | None:
    num_characters = sum(one.num_characters for one in utterances)
    return sum(one.num_edits for one in utterances) / num_characters if num_characters else None


def find_suspicious(utterances: Sequence[TrainingUtterance]) -> list[TrainingUtterance]:
    """The utterances of one language whose transcripts may be wrong, most suspicious first."""
    if len(utterances) < MIN_UTTERANCES:
        return []
    # Losses per character of correct transcripts spread by factors, so their logarithms are compared.
    losses = np.log([max(one.loss_per_character, 1e-6) for one in utterances])
    above = losses - np.median(losses)
    deviation = 1.4826 * float(np.median(np.abs(above)))  # that of a normal distribution with this median
    found = [utterances[index] for index in np.flatnonzero(above > SUSPICIOUS_DEVIATIONS * deviation).tolist()]
    return sorted(found, key=lambda one: -one.loss_per_character)


def judge(utterances: Sequence[TrainingUtterance], dev_cer: float | None) -> list[str]:
    """The verdicts on a language, most important first, as names in `VERDICTS`.

    Label errors raise the training CER, so the fit is judged by the other utterances.

    Args:
        utterances: training utterances of the language.
        dev_cer: its CER on the development set; without it, overfitting cannot be judged.

    Returns:
        One or two names; none if nothing is known.
    """
    train_cer = training_cer(utterances)
    if train_cer is None:
        return []
    if train_cer > NOT_LEARNED_CER:
        return ["not-learned"]
    wrong = find_suspicious(utterances)
    verdicts = []
    if wrong and len(wrong) >= LABEL_ERROR_SHARE * len(utterances):
        verdicts = ["label-errors"]
        train_cer = training_cer([one for one in utterances if one not in wrong]) or 0.0
    if dev_cer is None:
        return verdicts
    if dev_cer > max(LOW_CER, OVERFIT_RATIO * train_cer):
        return [*verdicts, "overfit"]
    if min(train_cer, dev_cer) > LOW_CER:
        return [*verdicts, "underfit"]
    return verdicts or ["good-fit"]
