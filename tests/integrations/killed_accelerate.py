"""examples/accelerate_loop.py with a tiny wav2vec 2.0, to be killed: python killed_accelerate.py folder"""

import sys
from pathlib import Path

import torch
import transformers
from kills import report_steps, write_result
from tiny_wav2vec2 import Waveforms, make_network

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

import accelerate_loop
from minimal_loop import collate

NUM_EPOCHS = 7
accelerate_loop.SAVE_EVERY = 2


class Model(torch.nn.Module):
    """(samples, B) padded audio -> (frames, B, labels) logits, as the model of the example."""

    def __init__(self) -> None:
        super().__init__()
        self.network = make_network()

    def forward(self, samples):
        return self.network(samples.T).logits.transpose(0, 1)


def main(folder: Path) -> None:
    report_steps()
    transformers.set_seed(0)
    corpus, model = Waveforms(), Model()

    def collate_samples(utterances):
        items = [(one.frames, one.labels, one.group) for one in utterances]
        samples, targets, num_samples, num_targets, groups = collate(items)
        return samples, targets, model.network._get_feat_extract_output_lengths(num_samples), num_targets, groups

    criterion = accelerate_loop.train(
        corpus, corpus.durations, corpus.groups, model, folder, NUM_EPOCHS, collate=collate_samples
    )
    write_result(folder, model, criterion)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
