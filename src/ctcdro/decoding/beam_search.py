"""Log-probabilities of frames -> language and text, by beam search; with an n-gram model of the languages, if wanted.

    search = BeamSearch(vocabulary, beam_size=16, language_model="lm.arpa", lm_weight=0.5)
    language, text = search(log_probs)      # (F, V), one utterance

It looks for the labels with the highest

    ln P(labels | audio) + lm_weight * ln P(labels),

where the first sums over all alignments, and the second is of the n-gram model; with a beam that is wide enough it
finds them. The search is flashlight-text's, and KenLM, which comes with it, reads the n-gram model.

The n-gram model sees what the recognizer says: the token of the language, then its characters, with `|` for the space,
as `[ces] d o b r ý | d e n`. So one model serves all languages, and has its say in which language it is; what it
knows of the language later on, it knows by the characters, as the token is soon further back than an n-gram reaches.
`write_lm_text` writes such lines for the programs that make n-gram models. Characters that the model has not seen cost
as much as its `<unk>`; a model that lacks a language is refused.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..runtime.extras import extra
from ..speech.utterance import Utterance
from ..speech.vocabulary import SPECIAL_TOKENS, WORD_SPACE, Vocabulary, can_be_character, can_be_language
from ..storage.atomic import atomic_write
from ..storage.paths import PathLike

logger = logging.getLogger(__name__)

BLANK_LABEL = 0


class BeamSearch:
    """Finds the most probable labels of an utterance, where greedy decoding takes the best label of each frame.

    Args:
        vocabulary: the labels of the recognizer.
        beam_size: hypotheses that are kept after each frame. The same labels with and without a blank at the end are
            two of them.
        language_model: file of an n-gram model of the symbols of `write_lm_text`, in ARPA format or KenLM's own; None
            to search without.
        lm_weight: how much the n-gram model counts, where the recognizer counts 1. Tune it on development data.
        blank_penalty: taken off the log-probability of the blank in each frame. As each character costs, n-gram models
            prefer short texts; this is against characters that go missing. Tune it together with the weight.
        labels_per_frame: how many of the best labels of a frame are tried. Time grows with it.
        beam_threshold: hypotheses that are less probable than the best by this much, as a natural logarithm, are
            dropped.

    Attributes:
        vocabulary: as given.
        settings: the other arguments, as they are written to the scores of a run.

    Raises:
        ValueError: if an argument is out of range, or the n-gram model cannot be read or lacks a language.
        ImportError: if flashlight-text is missing.

    Example:
        The best label of the last two frames is the blank, but more probability is on alignments of `a`:

        >>> vocabulary = Vocabulary(["ces"], "a")
        >>> frames = [[0.01, 0.01, 0.01, 0.96, 0.01], [0.57, 0.01, 0.01, 0.01, 0.40], [0.57, 0.01, 0.01, 0.01, 0.40]]
        >>> vocabulary.decode_frames(np.argmax(frames, axis=-1))
        ('ces', '')
        >>> BeamSearch(vocabulary)(np.log(frames))
        ('ces', 'a')
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        *,
        beam_size: int = 16,
        language_model: PathLike | None = None,
        lm_weight: float = 0.5,
        blank_penalty: float = 0.0,
        labels_per_frame: int = 40,
        beam_threshold: float = 20.0,
    ) -> None:
        _at_least("beam_size", beam_size, 1)
        _at_least("labels_per_frame", labels_per_frame, 2)
        _at_least("lm_weight", lm_weight, 0)
        _at_least("beam_threshold", beam_threshold, 0)
        if not math.isfinite(blank_penalty):
            raise ValueError(f"`blank_penalty` must be finite; got {blank_penalty}.")
        flashlight = _flashlight()
        self.vocabulary = vocabulary
        self.settings: dict[str, Any] = {
            "beam_size": beam_size,
            "language_model": None if language_model is None else os.fspath(language_model),
            "lm_weight": lm_weight,
            "blank_penalty": blank_penalty,
            "labels_per_frame": labels_per_frame,
            "beam_threshold": beam_threshold,
        }
        options = flashlight.LexiconFreeDecoderOptions(
            beam_size=beam_size,
            beam_size_token=labels_per_frame,
            beam_threshold=beam_threshold,
            lm_weight=lm_weight * math.log(10),  # KenLM's logarithms are decimal
            sil_score=0.0,
            log_add=True,
            criterion_type=flashlight.CriterionType.CTC,
        )
        model = flashlight.ZeroLM() if language_model is None else _read_language_model(language_model, vocabulary)
        # The third is the label that stands before the first frame and after the last. With any other than the blank,
        # an utterance that begins with this label would lose it.
        self._decoder = flashlight.LexiconFreeDecoder(options, model, BLANK_LABEL, BLANK_LABEL, [])

    def __call__(self, log_probs: npt.ArrayLike) -> tuple[str | None, str]:
        """Language and text, as `Vocabulary.decode_frames` gives them.

        Args:
            log_probs: (F, V) natural logarithms of the probabilities of labels, of the frames of one utterance, without
                padding.

        Raises:
            ValueError: if they are something else.
        """
        return self.vocabulary.decode_frames(self._best_path(log_probs))

    def _best_path(self, log_probs: npt.ArrayLike) -> list[int]:
        scores = np.asarray(log_probs).astype(np.float32, order="C")  # a copy: the search reads at its address
        if scores.ndim != 2 or scores.shape[1] != len(self.vocabulary):
            raise ValueError(
                f"`log_probs` must have shape (frames, {len(self.vocabulary)}), the labels of the vocabulary; got "
                f"{scores.shape}."
            )
        with np.errstate(over="ignore"):
            totals = np.exp(scores).sum(-1)
        # Logits would give other texts; and what is not a number cannot be sorted, and might crash the search.
        if not np.allclose(totals, 1.0, atol=1e-2):
            raise ValueError("`log_probs` must be logarithms of probabilities; those of some frame do not add up to 1.")
        scores[:, BLANK_LABEL] -= self.settings["blank_penalty"]
        return self._decoder.decode(scores.ctypes.data, *scores.shape)[0].tokens


def lm_line(text: str, language: str) -> str:
    """The symbols of an utterance as n-gram models see them, with spaces between.

    Raises:
        ValueError: if the text has a character that cannot be a label, or the language cannot be a token.

    Example:
        >>> lm_line("dobrý den", "ces")
        '[ces] d o b r ý | d e n'
    """
    if not can_be_language(language):
        raise ValueError(f"`language` must be a code without spaces or brackets; got {language!r}.")
    for character in text:
        if not can_be_character(character):
            raise ValueError(f"`text` has {character!r}, which cannot be a label; normalize it before: {text!r:.60}")
    return " ".join([f"[{language}]", *(WORD_SPACE if character == " " else character for character in text)])


def write_lm_text(utterances: Iterable[Utterance], path: PathLike) -> None:
    """Writes the symbols of all utterances, one a line: what programs that make n-gram models read, as KenLM's lmplz.

    Args:
        utterances: a manifest, of training data; or utterances of which only `text` and `lang` are known.
        path: the file to write.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_lm_text([Utterance("a.wav", duration=1.0, text="ano", lang="ces")], f"{folder}/lm.txt")
        ...     Path(folder, "lm.txt").read_text()
        '[ces] a n o\\n'
    """
    with atomic_write(path) as file:
        file.writelines(lm_line(one.text, one.lang) + "\n" for one in utterances)


def _read_language_model(path: PathLike, vocabulary: Vocabulary) -> Any:
    from flashlight.lib.text.decoder.kenlm import KenLM
    from flashlight.lib.text.dictionary import Dictionary

    if not Path(path).is_file():
        raise ValueError(f"`language_model`: {os.fspath(path)} is not there, or not a file.")
    try:
        model = KenLM(os.fspath(path), Dictionary(vocabulary.tokens))
    except RuntimeError as error:
        raise ValueError(f"{os.fspath(path)}: not an n-gram model that KenLM reads: {error}") from error
    missing = _missing(model, vocabulary)
    languages = [token for token in missing if len(token) > 1]
    if languages:
        raise ValueError(
            f"{os.fspath(path)}: the n-gram model does not know {', '.join(languages)}, so that it would speak against "
            "these languages. Make it from lines as '[ces] d e n', of all languages; `write_lm_text` writes them."
        )
    if missing:
        logger.warning("%s: unknown to the n-gram model, and costly: %s", os.fspath(path), " ".join(missing))
    return model


def _missing(model: Any, vocabulary: Vocabulary) -> list[str]:
    """Languages and characters that an n-gram model does not know.

    KenLM does not tell, but scores what it does not know as it scores the blank, which no text has.
    """
    state = model.start(True)
    unknown = model.score(state, BLANK_LABEL)[1]
    labels = range(len(SPECIAL_TOKENS), len(vocabulary))
    return [vocabulary.tokens[label] for label in labels if model.score(state, label)[1] == unknown]


def _at_least(name: str, value: float, least: int) -> None:
    if not (value >= least and math.isfinite(value)):
        raise ValueError(f"`{name}` must be {least} or more, and finite; got {value}.")


def _flashlight() -> Any:
    with extra("beam", "Beam search"):
        import flashlight.lib.text.decoder
    return flashlight.lib.text.decoder
