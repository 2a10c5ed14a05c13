"""Trains the model of `tiny_wav2vec2` in SpeechBrain, for `kills`: python killed_speechbrain.py folder"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import kills
import speechbrain as sb
import tiny_wav2vec2
import torch
import toy
from speechbrain.dataio.dataset import DynamicItemDataset
from speechbrain.utils.epoch_loop import EpochCounter

import ctcdro
from ctcdro.integrations.speechbrain import AtomicCheckpointer, RobustCTCLoss, train_loader

NUM_EPOCHS = 5


def make_dataset(corpus: tiny_wav2vec2.Waveforms) -> DynamicItemDataset:
    annotation = {
        f"utterance-{number}": {"number": number, "duration": spoken.duration, "lang": toy.LANGUAGES[spoken.group]}
        for number, spoken in enumerate(corpus.utterances)
    }
    dataset = DynamicItemDataset(annotation)
    dataset.add_dynamic_item(lambda number: corpus[number].frames, takes="number", provides="sig")
    dataset.add_dynamic_item(lambda number: corpus[number].labels, takes="number", provides="tokens")
    dataset.set_output_keys(["sig", "tokens", "lang"])
    return dataset


class Recognizer(sb.Brain):
    def compute_forward(self, batch, stage):
        samples, lens = batch.to(self.device).sig
        log_probs, num_frames = self.modules.model(samples, (lens * samples.shape[1]).round().long())
        return log_probs.transpose(0, 1), num_frames / log_probs.shape[0]

    def compute_objectives(self, predictions, batch, stage):
        (log_probs, frame_lens), (tokens, token_lens) = predictions, batch.tokens
        return self.hparams.ctc(log_probs, tokens, frame_lens, token_lens, batch.lang, stage)

    def on_stage_end(self, stage, stage_loss, epoch=None):
        if stage == sb.Stage.VALID:
            self.checkpointer.save_and_keep_only(meta={"loss": stage_loss}, min_keys=["loss"])


def main(folder: Path) -> None:
    run_opts = {"device": "cpu", "noprogressbar": True, "ckpt_interval_steps": 2, "max_grad_norm": 1000.0}
    toy.seed_everything(0)
    kills.report_steps()
    model, epochs, names = tiny_wav2vec2.Recognizer(), EpochCounter(NUM_EPOCHS), list(toy.LANGUAGES)
    objective = ctcdro.ctc_dro(len(names), step_size=toy.STEP_SIZE, smoothing=toy.SMOOTHING, group_names=names)
    loss = RobustCTCLoss(objective)
    checkpointer = AtomicCheckpointer(folder / "save", {"model": model, "epochs": epochs})
    brain = Recognizer({"model": model}, partial(torch.optim.Adam, lr=1e-3), {"ctc": loss}, run_opts, checkpointer)
    data, valid_data = make_dataset(tiny_wav2vec2.Waveforms()), make_dataset(tiny_wav2vec2.Waveforms(9, seed=1))
    loader = train_loader(brain, data, loss, "lang", batch_duration=toy.BATCH_DURATION, num_workers=1)
    brain.fit(epochs, loader, valid_data, valid_loader_kwargs={"batch_size": 3})
    kills.write_result(folder, model, loss)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
