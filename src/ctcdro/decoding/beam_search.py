"""Beam search over CTC log probabilities, optionally with an n-gram language model.

    search = BeamSearch(vocabulary, beam_size=16, language_model="lm.arpa", lm_weight=0.5)
    language, text = search(log_probs)      # (F, V), one utterance

The search maximizes

    ln P(labels | audio) + lm_weight * ln P(labels),

where the first term sums over all alignments and the second comes from the n-gram model. With a large enough beam the
result is exact. flashlight-text implements the search; KenLM, which it includes, reads the n-gram model.

The n-gram model is trained on the recognizer's labels: the language token, then characters, with `|` for the space,
such as `[ces] d o b r ý | d e n`. One model covers all languages and influences the choice of the language.
`write_lm_text` writes such lines for programs that train n-gram models. Characters that the model lacks get the
probability of `<unk>`. A model that lacks a language is rejected.
"""

from __future__ import annotations

import copy
import logging
import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ..runtime.extras import extra
from ..speech.utterance import Utterance
from ..speech.vocabulary import SPECIAL_TOKENS, WORD_SPACE, Vocabulary, can_be_character, can_be_language
from ..storage.atomic import atomic_write
from ..storage.paths import PathLike
from .alignment import language_probabilities, restrict

logger = logging.getLogger(__name__)

BLANK_LABEL = 0


class BeamSearch:
    """Finds the most probable labels of an utterance. Greedy decoding takes the best label of each frame instead.

    Args:
        beam_size: hypotheses to keep after each frame. The same labels with and without a final blank count as two.
        language_model: file of an n-gram model, trained on lines from `write_lm_text`, in ARPA or KenLM's binary
            format; None for no language model.
        lm_weight: weight of the n-gram model; the recognizer has weight 1. Tune it on development data.
        blank_penalty: subtracted from the log probability of the blank in each frame. N-gram models prefer short texts;
            a penalty reduces deletions. Tune it together with `lm_weight`.
        labels_per_frame: number of best labels to try per frame. Time grows with it.
        beam_threshold: hypotheses are dropped if their log probability is lower than the best by more than this.
        language: the language of all utterances; the search then finds only labels of this language, and the n-gram
            model needs only this language. By default any language.

    Attributes:
        settings: all arguments except the vocabulary; `evaluate` stores them with the scores of a run.

    Raises:
        ValueError: if the n-gram model cannot be read or lacks a language.

    Example:
        The best label of the last two frames is the blank, but the alignments with `a` are more probable in total:

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
        language: str | None = None,
    ) -> None:
        with extra("beam", "Beam search"):
            import flashlight.lib.text.decoder as flashlight
        self.vocabulary = vocabulary
        self.settings: dict[str, Any] = {
            "beam_size": beam_size,
            "language_model": None if language_model is None else os.fspath(language_model),
            "lm_weight": lm_weight,
            "blank_penalty": blank_penalty,
            "labels_per_frame": labels_per_frame,
            "beam_threshold": beam_threshold,
        }
        for name, least in {"beam_size": 1, "labels_per_frame": 2, "lm_weight": 0, "beam_threshold": 0}.items():
            if not least <= self.settings[name] < math.inf:
                raise ValueError(f"`{name}` must be finite and at least {least}; got {self.settings[name]}.")
        if not math.isfinite(blank_penalty):
            raise ValueError(f"`blank_penalty` must be finite; got {blank_penalty}.")
        self._labels = None if language is None else vocabulary.labels_of(language)
        if language_model is None:
            self._model = flashlight.ZeroLM()
        else:
            needed = self._labels or list(range(len(vocabulary)))
            self._model = _read_language_model(language_model, vocabulary, needed)
        self._decoder = self._make_decoder()

    def tuned(self, lm_weight: float, blank_penalty: float) -> BeamSearch:
        """The same search with other weights; shares the n-gram model."""
        other = copy.copy(self)
        other.settings = self.settings | {"lm_weight": lm_weight, "blank_penalty": blank_penalty}
        other._decoder = other._make_decoder()
        return other

    def _make_decoder(self) -> Any:
        import flashlight.lib.text.decoder as flashlight

        settings = self.settings
        options = flashlight.LexiconFreeDecoderOptions(
            beam_size=settings["beam_size"],
            beam_size_token=settings["labels_per_frame"],
            beam_threshold=settings["beam_threshold"],
            lm_weight=settings["lm_weight"] * math.log(10),  # KenLM uses base-10 logarithms
            sil_score=0.0,
            log_add=True,
            criterion_type=flashlight.CriterionType.CTC,
        )
        # The third argument is the label before the first frame and after the last. An utterance that begins with this
        # label would lose it, so it must be the blank.
        return flashlight.LexiconFreeDecoder(options, self._model, BLANK_LABEL, BLANK_LABEL, [])

    def __call__(self, log_probs: npt.ArrayLike) -> tuple[str | None, str]:
        """Returns language and text of one utterance, from its (F, V) log probabilities without padding."""
        return self.vocabulary.decode_frames(self.best_path(log_probs))

    def best_path(self, log_probs: npt.ArrayLike) -> list[int]:
        """The most probable alignment of the best labels, as one label per frame, from (F, V) log probabilities."""
        # A contiguous copy, because the search reads it by address.
        scores = np.asarray(log_probs).astype(np.float32, order="C")
        if scores.ndim != 2 or scores.shape[1] != len(self.vocabulary):
            raise ValueError(
                f"`log_probs` must have shape (frames, {len(self.vocabulary)}), one column per label; got "
                f"{scores.shape}."
            )
        with np.errstate(over="ignore"):
            totals = np.exp(scores).sum(-1)
        # Logits would give other texts, and NaN might crash the search.
        if not np.allclose(totals, 1.0, atol=1e-2):
            raise ValueError(
                "`log_probs` must be log probabilities, but the probabilities of a frame do not sum to 1. Apply "
                "`log_softmax(-1)`."
            )
        if self._labels is not None:
            scores = restrict(scores, self._labels)
        scores[:, BLANK_LABEL] -= self.settings["blank_penalty"]
        # The search adds a blank before the first frame and one after the last.
        return self._decoder.decode(scores.ctypes.data, *scores.shape)[0].tokens[1:-1]


class BeamSearchByLanguage:
    """Identifies the language of an utterance, then searches with the settings and n-gram model of that language.

    Args:
        vocabulary: the labels of the recognizer.
        language_models: file of the n-gram model of each language. Languages without one are searched without.
        options: other arguments of `BeamSearch`.
    """

    def __init__(self, vocabulary: Vocabulary, language_models: Mapping[str, PathLike], **options: Any) -> None:
        if unknown := sorted(set(language_models) - set(vocabulary.languages)):
            raise ValueError(
                f"`language_models`: the recognizer has no language {', '.join(unknown)}. Its languages: "
                f"{', '.join(vocabulary.languages)}."
            )
        self.vocabulary = vocabulary
        self._searches = {
            language: BeamSearch(vocabulary, language=language, language_model=language_models.get(language), **options)
            for language in vocabulary.languages
        }
        files = {language: os.fspath(path) for language, path in sorted(language_models.items())}
        self.settings = next(iter(self._searches.values())).settings | {"language_model": files}

    def __call__(self, log_probs: npt.ArrayLike) -> tuple[str | None, str]:
        """Returns language and text of one utterance, from its (F, V) log probabilities without padding."""
        language = self._identify(log_probs)
        return language, self._searches[language](log_probs)[1]

    def best_path(self, log_probs: npt.ArrayLike) -> list[int]:
        """Like `BeamSearch.best_path`."""
        return self._searches[self._identify(log_probs)].best_path(log_probs)

    def tuned(self, lm_weight: float, blank_penalty: float) -> BeamSearchByLanguage:
        """Like `BeamSearch.tuned`."""
        other = copy.copy(self)
        other._searches = {name: search.tuned(lm_weight, blank_penalty) for name, search in self._searches.items()}
        other.settings = self.settings | {"lm_weight": lm_weight, "blank_penalty": blank_penalty}
        return other

    def _identify(self, log_probs: npt.ArrayLike) -> str:
        return next(iter(language_probabilities(np.asarray(log_probs), self.vocabulary)))


Search: TypeAlias = BeamSearch | BeamSearchByLanguage


def lm_line(text: str, language: str) -> str:
    """The labels of an utterance as a line for n-gram models, separated by spaces.

    Example:
        >>> lm_line("dobrý den", "ces")
        '[ces] d o b r ý | d e n'
    """
    if not can_be_language(language):
        raise ValueError(f"`language` must be a code without spaces or brackets; got {language!r}.")
    for character in text:
        if not can_be_character(character):
            raise ValueError(f"`text` contains {character!r}, which cannot be a label. Normalize it: {text!r:.60}")
    return " ".join([f"[{language}]", *(WORD_SPACE if character == " " else character for character in text)])


def write_lm_text(utterances: Iterable[Utterance], path: PathLike) -> None:
    """Writes one line per utterance, for programs that train n-gram models, such as KenLM's lmplz."""
    with atomic_write(path) as file:
        file.writelines(lm_line(utterance.text, utterance.lang) + "\n" for utterance in utterances)


def _read_language_model(path: PathLike, vocabulary: Vocabulary, needed: list[int]) -> Any:
    from flashlight.lib.text.decoder.kenlm import KenLM
    from flashlight.lib.text.dictionary import Dictionary

    if not Path(path).is_file():
        raise ValueError(f"`language_model`: {os.fspath(path)} is not a file.")
    try:
        model = KenLM(os.fspath(path), Dictionary(vocabulary.tokens))
    except RuntimeError as error:
        raise ValueError(f"{os.fspath(path)}: not an n-gram model that KenLM can read: {error}") from error
    # KenLM does not report missing labels, but gives them the same score as the blank, which is in no text.
    state = model.start(True)
    unknown = model.score(state, BLANK_LABEL)[1]
    labels = [label for label in needed if label >= len(SPECIAL_TOKENS)]
    missing = [vocabulary.tokens[label] for label in labels if model.score(state, label)[1] == unknown]
    if languages := [token for token in missing if len(token) > 1]:
        raise ValueError(
            f"{os.fspath(path)}: the n-gram model lacks {', '.join(languages)}, so these languages would never "
            "be recognized. Train it on lines of all its languages, such as '[ces] d e n'; `write_lm_text` writes them."
        )
    if missing:
        logger.warning(
            "%s: the n-gram model lacks these characters, which makes them improbable: %s",
            os.fspath(path),
            " ".join(missing),
        )
    return model
