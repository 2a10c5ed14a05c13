"""Starts a recognizer from the weights of another, whose labels may differ.

    start = read_starting_point("runs/first")
    vocabulary = start.grow(vocabulary)
    model, copied = start.build(vocabulary, count_labels(vocabulary, manifest), head="convolution")

The other is a saved recognizer, or a CTC model of Hugging Face `transformers`, in a folder or on the Hub. Adapters of
LoRA are merged into its encoder, so that it can be frozen, trained, or get new adapters.

Rows of the output layer are copied by label. A new label starts as the mean of the labels of its kind, language tokens
or characters, with the bias shifted by the logarithm of its frequency relative to theirs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..speech.utterance import Utterance
from ..speech.vocabulary import SPECIAL_TOKENS, Vocabulary
from ..storage.json_files import read_json
from .encoders.base import PretrainedEncoder
from .encoders.lora import merged_weights
from .encoders.mel_small import MEL_SMALL, MelSmall
from .encoders.pretrained import CtcModel, from_options, load_ctc_model
from .heads import Head
from .recognizer import Recognizer, load, seeded
from .saving import CONFIG, is_model_folder
from .settings import recognizer_settings

OUTPUT = "output"
"""Name of the output layer of every head."""


class Copied(NamedTuple):
    """What a recognizer has from its starting point."""

    source: str
    languages: list[str]
    """Languages of an earlier recognizer."""
    has_head: bool
    kept: list[str]
    """Labels whose rows of the output layer were copied."""
    added: list[str]
    dropped: list[str]


@dataclass(frozen=True)
class StartingPoint:
    """The weights to start from. Create one with `read_starting_point`."""

    source: str
    encoder: str
    """`mel-small`, or the name of the checkpoint that the encoder came from."""
    encoder_options: Mapping[str, Any]
    encoder_weights: Mapping[str, Tensor]
    head: Head
    head_weights: Mapping[str, Tensor]
    labels: Sequence[str]
    """Labels in the order of the output layer."""
    vocabulary: Vocabulary | None
    """That of a recognizer; None for a model of `transformers`, whose labels have no languages."""

    def grow(self, vocabulary: Vocabulary) -> Vocabulary:
        """The labels of a recognizer that starts here: those of the data, and all of an earlier recognizer."""
        return vocabulary if self.vocabulary is None else self.vocabulary | vocabulary

    def build(
        self,
        vocabulary: Vocabulary,
        label_counts: Tensor,
        *,
        encoder: str | None = None,
        head: Head | None = None,
        copies_head: bool = True,
        seed: int | None = None,
        **settings: Any,
    ) -> tuple[Recognizer, Copied]:
        """A recognizer with these weights, in training mode, and what was copied.

        Args:
            label_counts: (V,) number of occurrences of each label in the training data.
            encoder: name of the encoder, if known, to check that it is the one of the starting point.
            head: by default, the head of the starting point.
            copies_head: whether to copy the head, too. Without it, only the weights of the encoder are copied.
            seed: seed of the weights that are not copied.
            settings: as for `recognizer.build`.

        Raises:
            ValueError: if the starting point has another encoder or, unless `copies_head` is false, another head.
        """
        self._check_parts(encoder, head, copies_head)
        languages = self.vocabulary.languages if self.vocabulary else []
        options = recognizer_settings(self.encoder, len(vocabulary), head=head or self.head, **settings)
        with seeded(seed):
            model = Recognizer(self._build_encoder(), options)
        if not copies_head:
            return model, Copied(self.source, languages, False, [], list(vocabulary.tokens), list(self.labels))
        rows = find_rows(vocabulary.tokens, self.labels)
        weights = dict(self.head_weights)
        weight, bias = f"{OUTPUT}.weight", f"{OUTPUT}.bias"
        weights[weight], weights[bias] = grow_rows(weights[weight], weights[bias], rows, vocabulary, label_counts)
        model.head.load_state_dict(weights)
        used = {self.labels[row] for row in rows if row is not None}
        kept, added = (
            [label for label, row in zip(vocabulary.tokens, rows, strict=True) if (row is not None) is is_kept]
            for is_kept in (True, False)
        )
        dropped = [label for label in self.labels if label not in used]
        return model, Copied(self.source, languages, True, kept, added, dropped)

    def _check_parts(self, encoder: str | None, head: Head | None, copies_head: bool) -> None:
        """Rejects an encoder or a head that differs, both in one message."""
        parts = {"encoder": (self.encoder, encoder)}
        if copies_head or self.encoder == MEL_SMALL:  # which has only one kind of head
            parts["head"] = (self.head, head)
        wrong = {key: (there, here) for key, (there, here) in parts.items() if here not in (None, there)}
        if not wrong:
            return
        names = " and ".join(f"model.{key}" for key in wrong)
        found = " and ".join(f"the {key} {there}" for key, (there, _) in wrong.items())
        given = " and ".join(f"model.{key} is {here}" for key, (_, here) in wrong.items())
        same = " ".join(f"--set model.{key}={there}" for key, (there, _) in wrong.items())
        only_encoder = ", or --set model.init_head=false to copy only the encoder" if [*wrong] == ["head"] else ""
        raise ValueError(
            f"model.init_from: {self.source} has {found}, but {given}. Remove {names} from the configuration, or add "
            f"{same}{only_encoder}."
        )

    def _build_encoder(self) -> PretrainedEncoder | MelSmall:
        if self.encoder == MEL_SMALL:
            mel_small = MelSmall(**self.encoder_options)
            mel_small.load_state_dict(self.encoder_weights)
            return mel_small
        encoder = from_options(self.encoder_options)
        encoder.network.load_state_dict(self.encoder_weights)
        return encoder


def read_starting_point(source: str) -> StartingPoint:
    """Reads the weights of a saved recognizer, or of a CTC model of `transformers`: a folder, or a name on the Hub.

    Raises:
        ValueError: if there is no such model, it is damaged, or its family is not supported.
    """
    if is_model_folder(Path(source)):
        return _of_recognizer(source, *load(source))
    try:
        _reject_others(Path(source))
        return _of_ctc_model(source, load_ctc_model(source))
    except ValueError as error:
        raise ValueError(f"model.init_from: {error}") from error


def _reject_others(path: Path) -> None:
    if not path.exists() and path.parent.is_dir():  # otherwise the Hub would be asked, again and again if it is offline
        raise ValueError(f"{path}: no such folder. Specify a run, a saved recognizer, or a model on the Hub.")
    config = read_json(path / CONFIG) if (path / CONFIG).is_file() else None
    if isinstance(config, dict) and config.get("model_type") == "ctcdro":
        raise ValueError(
            f"{path}: training cannot start from an export with its own code. Specify its run folder instead."
        )


def _of_recognizer(source: str, model: Recognizer, vocabulary: Vocabulary) -> StartingPoint:
    encoder = model.encoder
    return StartingPoint(
        source=source,
        encoder=model.settings.encoder,
        encoder_options=encoder.options,
        encoder_weights=merged_weights(encoder) if isinstance(encoder, PretrainedEncoder) else encoder.state_dict(),
        head=model.settings.head,
        head_weights=model.head.state_dict(),
        labels=vocabulary.tokens,
        vocabulary=vocabulary,
    )


def _of_ctc_model(source: str, model: CtcModel) -> StartingPoint:
    return StartingPoint(
        source=source,
        encoder=source,
        encoder_options=model.encoder.options,
        encoder_weights=model.encoder.network.state_dict(),
        head="linear",
        head_weights={f"{OUTPUT}.weight": model.weight, f"{OUTPUT}.bias": model.bias},
        labels=model.labels,
        vocabulary=None,
    )


def count_labels(vocabulary: Vocabulary, utterances: Iterable[Utterance]) -> Tensor:
    """(V,) number of occurrences of each label in texts and languages."""
    counts = Counter(label for one in utterances for label in vocabulary.encode(one.text, one.languages))
    return torch.tensor([counts[label] for label in range(len(vocabulary))])


def find_rows(new: Sequence[str], old: Sequence[str]) -> list[int | None]:
    """The old row of each new label; None if there is none.

    Letters match their capitals if a model has only those, as many English ones do.

    Example:
        >>> find_rows(["<pad>", "a", "b", "č"], ["<pad>", "A", "b", "d"])
        [0, 1, 2, None]
    """
    row_of = {label: row for row, label in reversed(list(enumerate(old)))}
    return [row_of.get(label, row_of.get(label.upper()) if len(label) == 1 else None) for label in new]


def grow_rows(
    weight: Tensor, bias: Tensor, rows: Sequence[int | None], vocabulary: Vocabulary, counts: Tensor
) -> tuple[Tensor, Tensor]:
    """Weight (V, D) and bias (V,) of an output layer for a vocabulary, from those of another.

    Args:
        rows: the old row of each label, from `find_rows`.
        counts: (V,) number of occurrences of each label in the training data.
    """
    new_weight, new_bias = weight.new_zeros(len(vocabulary), weight.shape[1]), bias.new_zeros(len(vocabulary))
    log_counts = counts.clamp(min=1).log().to(bias)
    languages = range(len(SPECIAL_TOKENS), len(SPECIAL_TOKENS) + len(vocabulary.languages))
    for kind in (languages, [label for label in range(len(vocabulary)) if label not in languages]):
        kept = [label for label in kind if rows[label] is not None]
        added = [label for label in kind if rows[label] is None]
        old = [row for label in kept if (row := rows[label]) is not None]
        new_weight[kept], new_bias[kept] = weight[old], bias[old]
        if added:
            # No label is like the blank. If there is none of the kind, as in models without languages: all labels.
            similar = [row for row in old if row != rows[0]] or [row for row in range(len(bias)) if row != rows[0]]
            seen = [label for label in kept if counts[label]] or added
            new_weight[added] = weight[similar].mean(0)
            new_bias[added] = bias[similar].mean() + log_counts[added] - log_counts[seen].mean()
    return new_weight, new_bias
