"""From the labels of frames to words with times, and from log probabilities to the language."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

import numpy as np
import numpy.typing as npt

from ..speech.vocabulary import Vocabulary
from .transcript import TimedCharacter, TimedWord

# A log probability that is zero as a float32 probability. Beam search needs a finite number.
IMPOSSIBLE = -1e4


@dataclass(frozen=True)
class Path:
    """One label per frame, with its probability and the time of the frame's center, in seconds."""

    labels: npt.NDArray[np.int64]
    confidences: npt.NDArray[np.float32]
    times: npt.NDArray[np.float64]

    def between(self, start: float, end: float) -> Path:
        """The frames whose centers lie between two times."""
        kept = slice(*np.searchsorted(self.times, [start, end]))
        return Path(self.labels[kept], self.confidences[kept], self.times[kept])

    @staticmethod
    def join(paths: list[Path]) -> Path:
        return Path(
            np.concatenate([path.labels for path in paths]),
            np.concatenate([path.confidences for path in paths]),
            np.concatenate([path.times for path in paths]),
        )


def align_words(
    path: Path, vocabulary: Vocabulary, frame_seconds: float, longest_gap: float = np.inf
) -> tuple[TimedWord, ...]:
    """The words of a path, whose texts are those of `Vocabulary.decode_frames`.

    A character lasts from the start of its first frame to the end of its last. CTC models often emit a character in a
    single frame near its middle, so characters and words look shorter than they are.

    Args:
        longest_gap: seconds between two characters of a word. After a longer gap, a new word begins.
    """
    words: list[list[TimedCharacter]] = [[]]
    position = 0
    for label, frames in groupby(path.labels.tolist()):
        first, position = position, position + len(list(frames))
        text = vocabulary.show(label)
        if text == " ":
            words.append([])
        elif text:
            start = max(0.0, float(path.times[first]) - frame_seconds / 2)
            end = float(path.times[position - 1]) + frame_seconds / 2
            if words[-1] and start - words[-1][-1].end > longest_gap:
                words.append([])
            words[-1].append(TimedCharacter(text, start, end, float(path.confidences[first:position].max())))
    return tuple(TimedWord(tuple(characters)) for characters in words if characters)


def restrict(log_probs: npt.NDArray[np.float32], labels: list[int]) -> npt.NDArray[np.float32]:
    """(F, V) log probabilities, given that only these labels can occur; the others get `IMPOSSIBLE`."""
    chosen = log_probs[:, labels]
    total = np.logaddexp.reduce(chosen, axis=1, keepdims=True)
    restricted = np.full_like(log_probs, IMPOSSIBLE)
    restricted[:, labels] = np.maximum(chosen - total, IMPOSSIBLE)
    return restricted


def language_probabilities(log_probs: npt.NDArray[np.float32], vocabulary: Vocabulary) -> dict[str, float]:
    """The probability of each language, highest first, given (F, V) log probabilities of an utterance.

    Exactly the probability, over all CTC alignments, that the first language token is that of the language, given that
    there is a language token. Frames of CTC are independent, so the first token is `l` with probability

        sum over frames t of p_t(l) * product over s < t of (1 - sum over languages k of p_s(k)).

    Example:
        >>> vocabulary = Vocabulary(["ces", "slk"], "a")
        >>> language_probabilities(np.log([[0.2, 0.1, 0.1, 0.4, 0.1, 0.1], [0.3, 0.1, 0.1, 0.1, 0.3, 0.1]]), vocabulary)
        {'ces': 0.642..., 'slk': 0.357...}
    """
    tokens = np.exp(log_probs[:, vocabulary.language_labels].astype(np.float64))
    no_token_before = np.cumprod(np.concatenate([[1.0], 1.0 - tokens.sum(1).clip(max=1.0)]))[:-1]
    first = no_token_before @ tokens + np.finfo(np.float64).tiny  # never zero, to be divided by
    probabilities = (first / first.sum()).tolist()
    by_language = zip(vocabulary.languages, probabilities, strict=True)
    return dict(sorted(by_language, key=lambda item: -item[1]))
