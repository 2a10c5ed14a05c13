"""A complete SpeechBrain experiment with CTC-DRO: python examples/speechbrain_ctc.py [FOLDER]

or on two processes: torchrun --nproc_per_node 2 examples/speechbrain_ctc.py [FOLDER]

Three synthetic languages, as in minimal_loop.py; FOLDER/train_log.txt lists their weights after every epoch. Without
the lines marked "ctcdro", it trains with plain CTC on batches of eight. Run the same command again to resume after an
interruption; the result is the same, dropout included.
"""

import sys
from functools import partial
from pathlib import Path

import numpy as np
import speechbrain as sb
import torch
from speechbrain.dataio.dataset import DynamicItemDataset
from speechbrain.utils.epoch_loop import EpochCounter
from speechbrain.utils.train_logger import FileTrainLogger

import ctcdro  # ctcdro
from ctcdro.integrations.speechbrain import AtomicCheckpointer, RobustCTCLoss, group_names, train_loader  # ctcdro

LANGUAGES, NOISE, NUM_SYMBOLS, FRAMES_PER_SECOND = ["clear", "plain", "noisy"], [0.2, 0.5, 0.9], 8, 25
NUM_LABELS = 1 + NUM_SYMBOLS * len(LANGUAGES)


def make_dataset(num_utterances: int, seed: int) -> DynamicItemDataset:
    rng = np.random.default_rng(seed)
    annotation = {}
    for number in range(num_utterances):
        language = number % len(LANGUAGES)
        labels = 1 + NUM_SYMBOLS * language + rng.integers(NUM_SYMBOLS, size=rng.integers(4, 20))
        spoken = np.repeat(labels, rng.integers(3, 7, size=len(labels)))
        annotation[f"utterance-{number}"] = {
            "duration": len(spoken) / FRAMES_PER_SECOND,
            "lang": LANGUAGES[language],
            "spoken": spoken.tolist(),
            "transcript": labels.tolist(),
            "seed": [seed, number],
        }
    dataset = DynamicItemDataset(annotation)
    dataset.add_dynamic_item(make_frames, takes=["spoken", "lang", "seed"], provides="frames")
    dataset.add_dynamic_item(torch.tensor, takes="transcript", provides="labels")
    dataset.set_output_keys(["id", "frames", "labels", "lang"])
    return dataset


def make_frames(spoken: list[int], language: str, seed: list[int]) -> torch.Tensor:
    noise = NOISE[LANGUAGES.index(language)] * np.random.default_rng(seed).standard_normal((len(spoken), NUM_LABELS))
    return torch.tensor(np.eye(NUM_LABELS)[spoken] + noise, dtype=torch.float32)


class Recognizer(sb.Brain):
    def compute_forward(self, batch, stage):
        frames, frame_lens = batch.to(self.device).frames
        return self.modules.model(frames).log_softmax(-1), frame_lens

    def compute_objectives(self, predictions, batch, stage):
        (log_probs, frame_lens), (labels, label_lens) = predictions, batch.labels
        return self.hparams.ctc(log_probs, labels, frame_lens, label_lens, batch.lang, stage)  # ctcdro

    def on_stage_end(self, stage, stage_loss, epoch=None):
        if stage == sb.Stage.TRAIN:
            self.train_stats = {"loss": stage_loss, **self.hparams.ctc.stats()}  # ctcdro
        elif stage == sb.Stage.VALID:
            self.hparams.train_logger.log_stats({"epoch": epoch}, self.train_stats, {"loss": stage_loss})
            self.checkpointer.save_and_keep_only(meta={"loss": stage_loss}, min_keys=["loss"])


def main(folder: str = "speechbrain-example", num_epochs: int = 4) -> dict[str, float]:
    run_opts = {"device": "cpu", "distributed_backend": "gloo", "noprogressbar": True, "ckpt_interval_steps": 20}
    run_opts["max_grad_norm"] = 1000.0  # ctcdro (clipped to one norm, batches would lose the weight of their language)
    sb.utils.distributed.ddp_init_group(run_opts)
    torch.manual_seed(0)
    train_data, valid_data = make_dataset(600, seed=0), make_dataset(60, seed=1)
    layers = torch.nn.Linear(NUM_LABELS, 64), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(64, NUM_LABELS)
    model = torch.nn.Sequential(*layers)
    epochs = EpochCounter(num_epochs)
    checkpointer = AtomicCheckpointer(Path(folder) / "save", {"model": model, "epochs": epochs})  # ctcdro
    names = group_names(train_data, "lang")  # ctcdro
    hparams = {
        "train_logger": FileTrainLogger(Path(folder) / "train_log.txt"),
        "ctc": RobustCTCLoss(ctcdro.ctc_dro(len(names), step_size=1e-4, smoothing=0.5, group_names=names)),  # ctcdro
    }
    adam = partial(torch.optim.Adam, lr=1e-2)
    brain = Recognizer({"model": model}, adam, hparams, run_opts, checkpointer)
    train_data = train_loader(brain, train_data, brain.hparams.ctc, "lang", batch_duration=20.0)  # ctcdro
    brain.fit(epochs, train_data, valid_data, valid_loader_kwargs={"batch_size": 8})
    return brain.hparams.ctc.stats()


if __name__ == "__main__":
    print(main(*sys.argv[1:]))
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
