"""Tunes the weights of a beam search on a development set.

    settings = tune("runs/first", BeamSearch(vocabulary, language_model="lm.arpa"))
    min(settings, key=by_worst_language)      # the one with the lowest error rate in the worst language

The model runs once; its log probabilities are then searched with every pair of `lm_weight` and `blank_penalty`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..runtime.extras import extra
from ..runtime.progress import Track, untracked
from ..scoring.transcripts import Prediction
from ..storage.paths import PathLike
from .beam_search import Search

with extra("train", "Tuning a beam search"):
    from ..scoring.scores import Scores, score
    from .decode import recognize
    from .evaluate import SplitInputs, load_split

LM_WEIGHTS = (0.1, 0.2, 0.4, 0.6, 0.9)
BLANK_PENALTIES = (0.0, 0.5, 1.0, 2.0)


class TunedSetting(NamedTuple):
    lm_weight: float | None
    """None for greedy decoding, which has neither."""
    blank_penalty: float | None
    scores: Scores

    @property
    def worst_cer(self) -> float:
        worst = self.scores.worst("cer")
        return 1.0 if worst is None else worst[1]

    @property
    def mean_cer(self) -> float:
        return float(np.mean(list(self.scores.rates("cer").values())))


def by_worst_language(setting: TunedSetting) -> tuple[float, float]:
    """Key of the best setting: the CER of the worst language, then the mean."""
    return setting.worst_cer, setting.mean_cer


def tune(
    run: PathLike,
    beam: Search,
    split: str = "dev",
    *,
    lm_weights: Sequence[float] = LM_WEIGHTS,
    blank_penalties: Sequence[float] = BLANK_PENALTIES,
    dataset: PathLike | None = None,
    profile: str = "plain",
    device: str = "auto",
    track: Track = untracked,
) -> list[TunedSetting]:
    """Scores greedy decoding, then every pair of weights.

    Args:
        beam: beam search with the vocabulary of the run and its n-gram model; its weights are replaced.
        split: split of the dataset. Never tune on test data.
        dataset: folder of the dataset; by default that of the run's configuration.
    """
    inputs = load_split(run, split, dataset, beam, device=device, track=track)
    log_probs = _log_probs(inputs, track)
    greedy = [inputs.vocabulary.decode_frames(frames.argmax(-1).tolist()) for frames in log_probs]
    settings = [TunedSetting(None, None, _score(inputs, greedy, profile))]
    pairs = [(lm_weight, penalty) for lm_weight in lm_weights for penalty in blank_penalties]
    for lm_weight, penalty in track(pairs, "tuning", len(pairs)):
        search = beam.tuned(lm_weight, penalty)
        texts = [search(frames) for frames in log_probs]
        settings.append(TunedSetting(lm_weight, penalty, _score(inputs, texts, profile)))
    return settings


def _log_probs(inputs: SplitInputs, track: Track) -> list[npt.NDArray[np.float32]]:
    """(F, V) log probabilities of each utterance, in the order of the manifest."""
    found: dict[int, npt.NDArray[np.float32]] = {}
    for batch, output in recognize(inputs.model, inputs.manifest, inputs.dataset, inputs.forward, track=track):
        if output is not None:
            rows = output.logits.float().log_softmax(-1).cpu().numpy()
            for index, row, num_frames in zip(batch.indices.tolist(), rows, output.num_frames.tolist(), strict=True):
                found[index] = row[:num_frames].copy()
    return [found[index] for index in range(len(inputs.manifest))]


def _score(inputs: SplitInputs, texts: Sequence[tuple[str | None, str]], profile: str) -> Scores:
    predictions = [
        Prediction(utterance.id or str(index), utterance.lang, utterance.text, *text, utterance.lang_shares)
        for index, (utterance, text) in enumerate(zip(inputs.manifest, texts, strict=True))
    ]
    return score(predictions, profile)
