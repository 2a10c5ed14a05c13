"""How fast does the training loop train? .venv/bin/python benchmarks/training.py

`ctcdro.training.loop.train` with CTC-DRO and all its logs, compared with

- the bare step: forward pass, `F.ctc_loss`, backward pass and the same optimizer, for the same model and the same
  batches, which are in memory when the clock starts; no clipping and no logs;
- the `Trainer` of transformers with the same model and clipping, unweighted summed losses and its own AdamW, which logs
  every 500 steps and saves nothing: with its own batches, of similar length and about as much audio, and with ours;
- itself with unweighted summed losses (`erm`), for the share of the robust objective in a step, which is also measured
  directly: forward and backward pass of the objective divided by the time of a step.

Utterances have the lengths of the paper's set 1 (an eighth of that for batches of 6 s), all different, in WAV files in
the system's cache. Each contender is a separate process with one thread and one data-loading worker (the bare step has
none). They take turns of a few steps each. Ratios compare seconds of training audio per second (ours over the other):
medians of all rounds, with a 95% bootstrap interval. Memory is the peak of the process, without its worker.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import soundfile
import torch
import torch.nn.functional as F
from corpora import SET_1, like_set_1
from measuring import ResultTable, peak_memory, shown
from torch import Tensor, nn

import ctcdro
from ctcdro import LengthMatchedBatchSampler, Manifest, Utterance
from ctcdro.models.recognizer import Recognizer, build
from ctcdro.objectives.methods import METHODS
from ctcdro.runs.config import Config, parse_config
from ctcdro.speech.audio import SAMPLE_RATE
from ctcdro.speech.batch import Batch, LoadedUtterance, Skipped, collate
from ctcdro.speech.dataset import SpeechDataset
from ctcdro.speech.loader import load_batches
from ctcdro.speech.vocabulary import Vocabulary

NUM_UTTERANCES = 7200  # so that no epoch ends while the clock runs
FILE_SECONDS = 60.0  # of the file in which all utterances of a language lie
LABELS_A_SECOND = 8
LETTERS = "abcdefghijklmnopqrstuvwxyz"

clock = time.perf_counter

# Like XLS-R, but small enough for a CPU.
SMALL_WAV2VEC2 = {
    **{"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 1024},
    **{"conv_dim": [64] * 7, "feat_extract_norm": "layer", "do_stable_layer_norm": True, "conv_bias": True},
}


@dataclass(frozen=True)
class Setting:
    """A model, the size of its batches, and the number of steps to measure."""

    name: str
    encoder: str
    """`mel-small`, or the folder of a checkpoint in the folder of the benchmark."""
    batch_duration: float
    num_rounds: int
    steps_a_turn: int


SETTINGS = (
    Setting("`mel-small`, 6 s", "mel-small", 6.0, num_rounds=20, steps_a_turn=20),
    Setting("`mel-small`, 50 s", "mel-small", 50.0, num_rounds=15, steps_a_turn=4),
    Setting("wav2vec 2.0, 4 layers of 256, the paper's head, 50 s", "wav2vec2", 50.0, num_rounds=6, steps_a_turn=2),
)


class OverError(Exception):
    """Raised when there are no more turns."""


class Turns:
    """Lets a contender's loop run for a few steps at a time, and blocks it while others have their turn.

    The loop calls `begin` before the first step, and `stepped` after each.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def begin(self, prepare: Callable[[int], None] = lambda num_steps: None) -> None:
        """Waits for a turn, prepares it, and starts the clock."""
        self._prepare = prepare
        self._num_steps: int | None = self._connection.recv()
        if self._num_steps is None:
            raise OverError
        prepare(self._num_steps)
        self._audio = 0.0
        self._start = clock()

    def stepped(self, audio: float) -> None:
        """Records a step and its seconds of audio; at the end of a turn, waits for the next."""
        assert self._num_steps is not None
        self._num_steps -= 1
        self._audio += audio
        if not self._num_steps:
            self._connection.send((self._audio, clock() - self._start, peak_memory()))
            self.begin(self._prepare)


def write_dataset(folder: Path, scale: float) -> None:
    """Writes noise with the lengths of the paper's set 1, times `scale`, and train.jsonl and dev.jsonl."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    for language in SET_1:
        soundfile.write(
            folder / f"{language}.wav", 0.1 * rng.standard_normal(int(FILE_SECONDS * SAMPLE_RATE)), SAMPLE_RATE
        )
    durations, groups = like_set_1(NUM_UTTERANCES)
    utterances = []
    for duration, group in zip(np.maximum(0.2, scale * durations).round(3).tolist(), groups, strict=True):
        language, offset = list(SET_1)[group], round(rng.uniform(0, FILE_SECONDS - duration), 3)
        text = "".join(rng.choice(list(LETTERS), int(duration * LABELS_A_SECOND)))
        utterances.append(Utterance(str(folder / f"{language}.wav"), duration, text, language, offset=offset))
    Manifest(utterances).write(folder / "train.jsonl")
    Manifest(utterances[: len(SET_1)]).write(folder / "dev.jsonl")


def write_wav2vec2(folder: Path, **options: Any) -> None:
    """A checkpoint with random weights."""
    import transformers

    torch.manual_seed(0)
    transformers.Wav2Vec2Model(transformers.Wav2Vec2Config(**options)).save_pretrained(folder)


def make_config(dataset: Path, encoder: str, batch_duration: float, optimizer: str = "adamw") -> Config:
    """One batch per step, without end; by default with AdamW, like the `Trainer`."""
    return parse_config(
        {
            "dataset": str(dataset),
            "model": {"encoder": encoder},
            "data": {"num_workers": 1},
            "sampling": {"batch_duration": batch_duration},
            "optimizer": {"batches_per_step": 1, "name": optimizer},
            "training": {"num_batches": 1_000_000, "validate_every_batches": 1_000_000},
        }
    )


# The contenders. Each trains until its turns are over.


def ours(config: Config, folder: Path, turns: Turns) -> None:
    from ctcdro.training.loop import train

    turns.begin()
    train(config, folder, callback=lambda record: turns.stepped(record["audio_seconds"]))


def ours_erm(config: Config, folder: Path, turns: Turns) -> None:
    erm = config.objective.model_copy(update={"name": "erm"})
    ours(config.model_copy(update={"objective": erm}), folder, turns)


def bare(config: Config, folder: Path, turns: Turns) -> None:
    from ctcdro.training.optimizer import build_optimizer

    manifest, vocabulary, dataset = read(config)
    numbers = manifest.groups().numbers
    sampler = LengthMatchedBatchSampler(manifest.durations, numbers, config.sampling.batch_duration, seed=config.seed)
    stream = iter(load_batches(dataset, sampler))
    model = make_model(config, vocabulary)
    optimizer = build_optimizer(config, model)
    ready: list[Batch] = []
    turns.begin(prepare=lambda num_steps: ready.extend(next(stream) for _ in range(num_steps)))
    while True:
        batch = ready.pop(0)
        summed_ctc(model, batch).backward()
        optimizer.step()
        optimizer.zero_grad()
        turns.stepped(float(batch.lengths.sum()) / SAMPLE_RATE)


def trainer(config: Config, folder: Path, turns: Turns) -> None:
    hugging_face(config, folder, turns, our_batches=False)


def trainer_our_batches(config: Config, folder: Path, turns: Turns) -> None:
    hugging_face(config, folder, turns, our_batches=True)


def hugging_face(config: Config, folder: Path, turns: Turns, our_batches: bool) -> None:
    """The `Trainer`, set up as in its documentation, with samplers that know the durations."""
    import transformers
    from transformers.trainer_pt_utils import LengthGroupedSampler

    manifest, vocabulary, dataset = read(config)
    durations = manifest.durations
    model = WithLoss(make_model(config, vocabulary))
    size = round(config.sampling.batch_duration / durations.mean())

    class Trainer(transformers.Trainer):  # type: ignore[misc]
        def _get_train_sampler(self, *args: Any) -> Any:
            return LengthGroupedSampler(size, lengths=durations.tolist())

    class OurBatches(transformers.Trainer):  # type: ignore[misc]
        def get_train_dataloader(self) -> Any:
            groups = manifest.groups().numbers
            sampler = LengthMatchedBatchSampler(durations, groups, config.sampling.batch_duration, seed=config.seed)
            return torch.utils.data.DataLoader(
                dataset, batch_sampler=sampler, collate_fn=as_arguments, num_workers=config.data.num_workers
            )

    class Callback(transformers.TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, *args: Any, **kwargs: Any) -> None:
            turns.stepped(model.audio)

    arguments = transformers.TrainingArguments(
        output_dir=str(folder),
        max_steps=1_000_000,
        per_device_train_batch_size=size,
        learning_rate=config.optimizer.learning_rate,
        weight_decay=config.optimizer.weight_decay,
        max_grad_norm=config.optimizer.max_grad_norm,
        lr_scheduler_type="constant",
        dataloader_num_workers=config.data.num_workers,
        dataloader_pin_memory=False,
        remove_unused_columns=False,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=not torch.cuda.is_available(),
    )
    turns.begin()
    kind = OurBatches if our_batches else Trainer
    kind(model, arguments, train_dataset=dataset, data_collator=as_arguments, callbacks=[Callback()]).train()


CONTENDERS = (ours, bare, trainer, trainer_our_batches, ours_erm)


class WithLoss(nn.Module):
    """The model with the interface of the `Trainer`: it returns the loss of a batch."""

    def __init__(self, model: Recognizer) -> None:
        super().__init__()
        self.model = model
        self.audio = 0.0
        """Seconds of the last batch."""

    def forward(self, inputs: Tensor, lengths: Tensor, targets: Tensor, num_labels: Tensor) -> dict[str, Tensor]:
        self.audio = float(lengths.sum()) / SAMPLE_RATE
        return {"loss": summed_ctc(self.model, Batch(inputs, lengths, targets, *(num_labels,) * 4, []))}


def as_arguments(items: list[LoadedUtterance | Skipped]) -> dict[str, Tensor]:
    batch = collate(items)
    return {name: getattr(batch, name) for name in ("inputs", "lengths", "targets", "num_labels")}


def summed_ctc(model: Recognizer, batch: Batch) -> Tensor:
    output = model(batch.inputs, batch.lengths)
    log_probs = output.logits.log_softmax(-1).transpose(0, 1)
    return F.ctc_loss(
        log_probs, batch.targets, output.num_frames, batch.num_labels, reduction="sum", zero_infinity=True
    )


def read(config: Config) -> tuple[Manifest, Vocabulary, SpeechDataset]:
    manifest = Manifest.read(config.dataset / "train.jsonl")
    vocabulary = Vocabulary.of((one.text for one in manifest), (one.lang for one in manifest))
    return manifest, vocabulary, SpeechDataset(manifest, vocabulary)


def make_model(config: Config, vocabulary: Vocabulary) -> Recognizer:
    one = config.model
    model = build(one.encoder, len(vocabulary), head=one.head, spec_augment=one.spec_augment, seed=config.seed)
    return model.train()


# Measurement.


def compete(contender: Callable[[Config, Path, Turns], None], config: Config, folder: Path, link: Connection) -> None:
    """Runs in the process of a contender."""
    torch.set_num_threads(1)
    with suppress(OverError):
        contender(config, folder, Turns(link))


@contextmanager
def contenders(config: Config, folder: Path) -> Iterator[list[Connection]]:
    """Connections to the processes of all contenders."""
    context = multiprocessing.get_context("spawn")
    links, processes = [], []
    for contender in CONTENDERS:
        here, there = context.Pipe()
        process = context.Process(target=compete, args=(contender, config, folder / contender.__name__, there))
        process.start()
        there.close()
        links.append(here)
        processes.append(process)
    try:
        yield links
        for link in links:
            link.send(None)
        for process in processes:
            process.join(30)
    finally:
        for process in processes:
            process.terminate()


def measure(setting: Setting, config: Config, folder: Path) -> npt.NDArray[np.float64]:
    """(rounds, contenders, 3): seconds of audio, seconds taken, peak memory so far."""
    results = np.zeros((setting.num_rounds, len(CONTENDERS), 3))
    with contenders(config, folder) as links:
        for number in range(-1, setting.num_rounds):  # the first to set up and to warm up
            order = np.random.default_rng(number + 1).permutation(len(links))
            for which in order:
                links[which].send(setting.steps_a_turn)
                results[max(number, 0), which] = links[which].recv()
    return results


def seconds_of_objective(config: Config, num_batches: int = 1200) -> tuple[float, float]:
    """Seconds per batch for a call of the objective, including its backward pass: with CTC-DRO, and with ERM."""
    durations, groups = like_set_1(3600)
    sampler = LengthMatchedBatchSampler(durations, groups, 50.0)
    batches = [torch.as_tensor(groups[batch]) for batch in sampler.plan(0)]
    objectives = (
        METHODS["ctc-dro"].create(len(SET_1), config.objective.settings),
        ctcdro.erm(len(SET_1)),
    )
    seconds = np.zeros((num_batches, 2))
    for number in range(num_batches):
        numbers = batches[number % len(batches)]
        losses = torch.rand(len(numbers)) * 100
        for which, objective in enumerate(objectives):
            own = losses.clone().requires_grad_()
            start = clock()
            objective(own, numbers).backward()
            seconds[number, which] = clock() - start
    robust, plain = np.median(seconds, axis=0)
    return float(robust), float(plain)


def main(settings: tuple[Setting, ...] = SETTINGS) -> dict[str, ResultTable]:
    speed = ResultTable(
        "model and batches",
        "`ctcdro train` (audio seconds per second)",
        "relative to the bare step",
        "relative to `Trainer`, its batches",
        "relative to `Trainer`, our batches",
    )
    cost = ResultTable(
        "model and batches",
        "speed relative to `erm`",
        "share of the objective in a step",
        "memory of `ctcdro train` (GB)",
        "of the bare step (GB)",
        "of `Trainer` (GB)",
    )
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_wav2vec2(folder / "wav2vec2", **SMALL_WAV2VEC2)
        for number, setting in enumerate(settings):
            dataset = folder / f"dataset-{setting.batch_duration:g}"
            if not dataset.exists():
                write_dataset(dataset, scale=setting.batch_duration / 50)
            encoder = setting.encoder if setting.encoder == "mel-small" else str(folder / setting.encoder)
            config = make_config(dataset, encoder, setting.batch_duration)
            results = measure(setting, config, folder / f"runs-{number}")
            rates = results[:, :, 0] / results[:, :, 1]
            over = [shown(rates[:, 0] / rates[:, which], digits=3) for which in range(1, len(CONTENDERS))]
            step = float(np.median(results[:, 0, 1])) / setting.steps_a_turn
            robust, _ = seconds_of_objective(config)
            memory = [f"{results[-1, which, 2] / 1e9:.2f}" for which in range(3)]
            speed.add(setting.name, f"{np.median(rates[:, 0]):,.0f}", *over[:3])
            cost.add(setting.name, over[3], f"{robust / step:.2%}", *memory)
    return {"training-speed": speed, "training-cost": cost}


if __name__ == "__main__":
    main()
