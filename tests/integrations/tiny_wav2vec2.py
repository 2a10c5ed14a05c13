"""A tiny wav2vec 2.0 with everything that draws random numbers in training, and audio for it.

Dropout and layer drop draw from torch's generator, SpecAugment from numpy's. Languages, criterion and sampler are those
of `toy`.
"""

from __future__ import annotations

import numpy as np
import torch
import toy
import transformers
from torch import Tensor, nn

import ctcdro

CONFIG = {
    **{"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32},
    **{"conv_dim": [8, 8], "conv_kernel": [6, 4], "conv_stride": [3, 2], "feat_extract_norm": "layer"},
    **{"num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2, "do_stable_layer_norm": True},
    **{"hidden_dropout": 0.1, "attention_dropout": 0.1, "activation_dropout": 0.1, "feat_proj_dropout": 0.1},
    **{"final_dropout": 0.1, "layerdrop": 0.2, "apply_spec_augment": True},
    **{"mask_time_prob": 0.3, "mask_time_length": 2, "mask_feature_prob": 0.2, "mask_feature_length": 2},
    **{"vocab_size": toy.NUM_LABELS, "pad_token_id": 0},
}


class Waveforms(toy.Toy):
    """Utterances of random audio; `frames` are its samples."""

    def __init__(self, num_utterances: int = 60, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.utterances = []
        for number in range(num_utterances):
            group = number % len(toy.LANGUAGES)
            samples = rng.standard_normal(rng.integers(80, 200)).astype(np.float32)
            labels = rng.integers(1, toy.NUM_LABELS, size=len(samples) // (30 - 5 * group))
            self.utterances.append(toy.Spoken(torch.tensor(samples), torch.tensor(labels), group))


def make_network() -> transformers.Wav2Vec2ForCTC:
    """The same parameters each time."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return transformers.Wav2Vec2ForCTC(transformers.Wav2Vec2Config(**CONFIG))


class Recognizer(nn.Module):
    """The network: (B, samples) and (B,) lengths -> (frames, B, labels) log probabilities and (B,) lengths."""

    def __init__(self) -> None:
        super().__init__()
        self.network = make_network()

    def forward(self, samples: Tensor, num_samples: Tensor) -> tuple[Tensor, Tensor]:
        is_audio = torch.arange(samples.shape[1]) < num_samples[:, None]
        logits = self.network(samples, attention_mask=is_audio.long()).logits
        num_frames = self.network._get_feat_extract_output_lengths(num_samples)
        return logits.log_softmax(-1).transpose(0, 1), num_frames


def batch_loss(model: nn.Module, criterion: ctcdro.CTCDROLoss, batch: toy.Batch) -> Tensor:
    """The loss of a batch that `toy.collate` made of `Waveforms`."""
    log_probs, num_frames = model(batch.frames, batch.num_frames)
    return criterion(log_probs, batch.labels, num_frames, batch.num_labels, batch.groups)
