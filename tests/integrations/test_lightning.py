"""Lightning compared with the plain loop: equal weights, exact resuming, several processes, and rejected misuse.

Run by torchrun, this file is one of two processes (`main`).
"""

from __future__ import annotations

import csv
import multiprocessing
import os
import runpy
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import pytest
import pytorch_lightning
import torch
import toy
from kills import assert_kills_change_nothing
from lightning import pytorch as lightning
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint, OnExceptionCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader, Dataset

import ctcdro
from ctcdro.integrations.lightning import CTCDROCallback, ResumableLoader

pytestmark = pytest.mark.filterwarnings("ignore")  # Lightning gives much advice

EXAMPLE = Path(__file__).parents[2] / "examples" / "lightning_ctc.py"
NUM_EPOCHS = 2
BATCHES_AN_EPOCH = len(toy.Toy().sampler(exponent=1.0))


class Counting(Dataset):
    """The corpus, with the number of each utterance, and how often it was loaded, in whatever process."""

    def __init__(self, corpus: toy.Toy) -> None:
        self.corpus = corpus
        self.num_loaded = torch.zeros(len(corpus), dtype=torch.int64).share_memory_()

    def __len__(self) -> int:
        return len(self.corpus)

    def __getitem__(self, index: int) -> tuple[int, toy.Spoken]:
        self.num_loaded[index] += 1
        return index, self.corpus[index]


def collate(numbered: list[tuple[int, toy.Spoken]]) -> tuple[list[int], toy.Batch]:
    numbers, utterances = zip(*numbered, strict=True)
    return list(numbers), toy.collate(list(utterances))


def make_recognizer(
    package=lightning,
    *,
    draws: bool = True,
    criterion: ctcdro.ObjectiveCTCLoss | None = None,
    asks_for_steps: bool = False,
    fails_at: int | None = None,
    breaks_at: int | None = None,
):
    class Recognizer(package.LightningModule):
        """The model of the plain loop, and what it sees; with `draws`, dropout and masks as well."""

        def __init__(self) -> None:
            super().__init__()
            self.model = toy.make_random_model() if draws else toy.make_model()
            self.criterion = criterion or toy.make_criterion()
            self.batches: list[list[int]] = []
            self.weights: list[torch.Tensor] = []
            self.weights_in_validation: list[torch.Tensor] = []

        def training_step(self, batch, batch_idx):
            numbers, batch = batch
            if fails_at is not None and len(self.batches) == fails_at:
                raise RuntimeError("out of memory")
            if len(self.batches) == breaks_at:
                torch.nn.init.constant_(next(self.model.parameters()), torch.nan)
            loss = toy.batch_loss(self.model, self.criterion, batch)
            self.batches.append(numbers)
            self.weights.append(self.criterion.weights.clone())
            return loss

        def validation_step(self, batch, batch_idx):
            self.log("loss", toy.batch_loss(self.model, self.criterion, batch[1]), batch_size=1, sync_dist=True)
            self.weights_in_validation.append(self.criterion.weights.clone())
            torch.rand(())  # as layer drop of wav2vec 2.0 does, in evaluation too

        def on_validation_epoch_end(self):
            if self.criterion.objective.needs_error_rates and not self.trainer.sanity_checking:
                rates = toy.error_rates(self.model, toy.Toy(31, seed=1))
                self.criterion.objective.update_error_rates({name: torch.tensor(rates[name]) for name in rates})

        def configure_optimizers(self):
            if asks_for_steps:  # which sets up the loader before Lightning has loaded its state
                assert self.trainer.estimated_stepping_batches
            return torch.optim.Adam(self.parameters(), lr=toy.LEARNING_RATE)

    return Recognizer()


class Run:
    """A trainer that has trained: `Run(max_epochs=2).recognizer.weights`."""

    def __init__(
        self,
        recognizer=None,
        data=None,
        development=None,
        *,
        package=lightning,
        sampler=None,
        num_workers=0,
        callbacks=(),
        ckpt_path=None,
        weights_only=None,
        **options,
    ) -> None:
        toy.seed_everything(0 if ckpt_path is None else 1)  # a checkpoint brings the state of the generators
        self.recognizer = recognizer or make_recognizer(package)
        self.corpus = Counting(toy.Toy())
        data = data or make_loader(self.corpus, sampler, num_workers=num_workers, persistent_workers=num_workers > 0)
        self.trainer = package.Trainer(
            **{"accelerator": "cpu", "devices": 1, "max_epochs": NUM_EPOCHS, "logger": False, **options},
            callbacks=[*callbacks, CTCDROCallback()],
            enable_checkpointing=bool(callbacks),
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        self.trainer.fit(self.recognizer, data, development, ckpt_path=ckpt_path, weights_only=weights_only)


def make_loader(corpus: Counting, sampler=None, **options) -> ResumableLoader:
    sampler = sampler or corpus.corpus.sampler(exponent=1.0)
    return ResumableLoader(DataLoader(corpus, batch_sampler=sampler, collate_fn=collate, **options))


def development_data() -> DataLoader:
    return DataLoader(Counting(toy.Toy(12, seed=1)), batch_size=4, collate_fn=collate)


@pytest.fixture(scope="module")
def whole() -> Run:
    """A run that nothing stopped."""
    return Run()


def checkpoints_of(folder: Path, **when) -> ModelCheckpoint:
    return ModelCheckpoint(folder, filename="{step}", save_top_k=-1, **when)


def assert_continues(resumed: Run, whole: Run, num_done: int) -> None:
    remaining = whole.recognizer.batches[num_done:]
    assert resumed.recognizer.batches == remaining
    expected = torch.bincount(torch.tensor([number for batch in remaining for number in batch]), minlength=240)
    assert torch.equal(resumed.corpus.num_loaded, expected)  # nothing that was skipped
    torch.testing.assert_close(resumed.recognizer.weights, whole.recognizer.weights[num_done:], rtol=0, atol=0)
    torch.testing.assert_close(resumed.recognizer.state_dict(), whole.recognizer.state_dict(), rtol=0, atol=0)


@pytest.mark.parametrize("package", [lightning, pytorch_lightning])
@pytest.mark.parametrize("exponent", [0.0, 1.0])
def test_weights_are_those_of_the_plain_loop(package, exponent):
    run = Run(make_recognizer(package, draws=False), package=package, sampler=toy.Toy().sampler(exponent=exponent))
    plain = toy.plain_loop(NUM_EPOCHS, exponent=exponent)
    torch.testing.assert_close(torch.stack(run.recognizer.weights), plain)


def test_every_utterance_occurs_once_per_epoch_and_epochs_differ(whole):
    epochs = [whole.recognizer.batches[:BATCHES_AN_EPOCH], whole.recognizer.batches[BATCHES_AN_EPOCH:]]
    for epoch in epochs:
        assert sorted(number for batch in epoch for number in batch) == list(range(240))
    assert epochs[0] != epochs[1]


def test_weights_are_those_of_the_plain_loop_when_gradients_accumulate():
    corpus, model, criterion = toy.Toy(), toy.make_model(), toy.make_criterion()
    optimizer, weights = torch.optim.Adam(model.parameters(), lr=toy.LEARNING_RATE), []
    loader = DataLoader(corpus, batch_sampler=corpus.sampler(exponent=1.0), collate_fn=toy.collate)
    for number, batch in enumerate(loader, start=1):
        (toy.batch_loss(model, criterion, batch) / 4).backward()  # Lightning takes the mean
        weights.append(criterion.weights.clone())
        if number % 4 == 0 or number == len(loader):
            optimizer.step()
            optimizer.zero_grad()
    run = Run(make_recognizer(draws=False), max_epochs=1, accumulate_grad_batches=4)
    torch.testing.assert_close(run.recognizer.weights, weights)


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("num_done", [5, BATCHES_AN_EPOCH, BATCHES_AN_EPOCH + 7])
def test_a_checkpoint_of_any_batch_continues_exactly(tmp_path, whole, num_done, num_workers):
    Run(callbacks=[checkpoints_of(tmp_path, every_n_train_steps=num_done)], num_workers=num_workers)
    path = tmp_path / f"step={num_done}.ckpt"
    with warnings.catch_warnings():
        warnings.filterwarnings("error", ".*your dataloader is not resumable.*")
        resumed = Run(ckpt_path=path, num_workers=num_workers, weights_only=True)
    assert_continues(resumed, whole, num_done)


def test_a_checkpoint_after_gradients_were_accumulated_continues_exactly(tmp_path):
    whole = Run(callbacks=[checkpoints_of(tmp_path, every_n_train_steps=3)], accumulate_grad_batches=4)
    assert_continues(Run(ckpt_path=tmp_path / "step=3.ckpt", accumulate_grad_batches=4), whole, 12)


@pytest.mark.parametrize("interval", [0.5, 1.0])
def test_a_checkpoint_of_a_validation_continues_exactly(tmp_path, whole, interval):
    num_done = int(BATCHES_AN_EPOCH * interval)
    options = {"development": development_data(), "val_check_interval": interval}
    Run(callbacks=[checkpoints_of(tmp_path, monitor="loss")], **options)
    assert_continues(Run(ckpt_path=tmp_path / f"step={num_done}.ckpt", **options), whole, num_done)


def test_a_checkpoint_before_a_validation_continues_exactly(tmp_path):
    """Lightning resumes with a part of the validation, so validation must not change the random numbers of training."""
    num_done = 2 * BATCHES_AN_EPOCH
    options = {"development": development_data(), "max_epochs": 3}
    whole = Run(callbacks=[checkpoints_of(tmp_path, every_n_train_steps=num_done)], **options)
    assert_continues(Run(ckpt_path=tmp_path / f"step={num_done}.ckpt", **options), whole, num_done)


def test_a_checkpoint_of_the_end_of_an_epoch_continues_exactly(tmp_path, whole):
    Run(callbacks=[checkpoints_of(tmp_path, every_n_epochs=1)], num_workers=2)
    resumed = Run(ckpt_path=tmp_path / f"step={BATCHES_AN_EPOCH}.ckpt", num_workers=2)
    assert_continues(resumed, whole, BATCHES_AN_EPOCH)


def adaptive_run(signal: str = "loss_per_character", draws: bool = True, **options) -> Run:
    criterion = toy.make_error_weighted(signal=signal)
    recognizer = make_recognizer(draws=draws, criterion=criterion)
    return Run(recognizer, sampler=toy.Toy().adaptive_sampler(criterion), **options)


def test_adaptive_batches_and_error_weights_are_those_of_the_plain_loop():
    run = adaptive_run(draws=False)
    batches, weights = toy.adaptive_loop(toy.make_error_weighted())
    assert run.recognizer.batches == batches
    torch.testing.assert_close(torch.stack(run.recognizer.weights), weights)
    toy.assert_shares_follow_weights(batches, weights)


def test_error_weights_follow_validations_but_not_the_sanity_check():
    run = adaptive_run("error_rate", draws=False, development=development_data(), max_epochs=4)
    criterion = toy.make_error_weighted(signal="error_rate")

    def update(model):
        criterion.objective.update_error_rates(toy.error_rates(model, toy.Toy(31, seed=1)))

    batches, weights = toy.adaptive_loop(criterion, num_epochs=4, after_epoch=update)
    assert run.recognizer.batches == batches
    torch.testing.assert_close(torch.stack(run.recognizer.weights), weights)
    toy.assert_shares_follow_weights(batches, weights)


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("num_done", [10, BATCHES_AN_EPOCH + 7])
def test_adaptive_batches_continue_exactly_in_the_middle_of_a_round(tmp_path, num_done, num_workers):
    options = {"num_workers": num_workers}
    whole = adaptive_run(callbacks=[checkpoints_of(tmp_path, every_n_train_steps=num_done)], **options)
    resumed = adaptive_run(ckpt_path=tmp_path / f"step={num_done}.ckpt", weights_only=True, **options)
    assert_continues(resumed, whole, num_done)


def test_error_rates_of_validations_are_in_checkpoints(tmp_path):
    num_done = 2 * BATCHES_AN_EPOCH + 10
    options = {"development": development_data(), "max_epochs": 3}
    whole = adaptive_run("error_rate", callbacks=[checkpoints_of(tmp_path, every_n_train_steps=num_done)], **options)
    assert whole.recognizer.weights[num_done].unique().numel() > 1
    resumed = adaptive_run("error_rate", ckpt_path=tmp_path / f"step={num_done}.ckpt", **options)
    assert_continues(resumed, whole, num_done)


def test_an_adaptive_sampler_with_another_objective_is_refused():
    sampler = toy.Toy().adaptive_sampler(toy.make_error_weighted())
    with pytest.raises(ValueError, match="created with another objective"):
        Run(make_recognizer(criterion=toy.make_error_weighted()), sampler=sampler)


class Data(lightning.LightningDataModule):
    """Creates a new sampler and loader on every request."""

    def __init__(self) -> None:
        super().__init__()
        self.corpus, self.num_made = Counting(toy.Toy()), 0

    def train_dataloader(self) -> ResumableLoader:
        self.num_made += 1
        return make_loader(self.corpus, num_workers=2)


def test_a_data_module_that_makes_a_loader_every_epoch_continues_exactly(tmp_path, whole):
    options = {"reload_dataloaders_every_n_epochs": 1}
    Run(data=Data(), callbacks=[checkpoints_of(tmp_path, every_n_train_steps=10)], **options)
    data = Data()
    resumed = Run(data=data, ckpt_path=tmp_path / "step=10.ckpt", **options)
    resumed.corpus = data.corpus
    assert_continues(resumed, whole, 10)
    assert data.num_made == NUM_EPOCHS


def test_a_run_that_max_steps_stopped_continues_exactly(tmp_path, whole):
    Run(callbacks=[checkpoints_of(tmp_path, every_n_train_steps=10)], max_steps=10)
    assert_continues(Run(ckpt_path=tmp_path / "step=10.ckpt"), whole, 10)


@pytest.mark.xfail(strict=True, reason="Lightning counts the first batch to the epoch that is over, with any loader")
def test_a_checkpoint_of_the_end_of_an_epoch_continues_exactly_with_max_steps(tmp_path, whole):
    options = {"max_epochs": -1, "max_steps": NUM_EPOCHS * BATCHES_AN_EPOCH}
    Run(callbacks=[checkpoints_of(tmp_path, every_n_epochs=1)], **options)
    resumed = Run(ckpt_path=tmp_path / f"step={BATCHES_AN_EPOCH}.ckpt", **options)
    assert_continues(resumed, whole, BATCHES_AN_EPOCH)


def test_a_module_that_requests_the_number_of_steps_continues_exactly(tmp_path, whole):
    Run(callbacks=[checkpoints_of(tmp_path, every_n_train_steps=10)], max_steps=10)
    assert_continues(Run(make_recognizer(asks_for_steps=True), ckpt_path=tmp_path / "step=10.ckpt"), whole, 10)


def test_a_checkpoint_of_a_resumed_run_continues_exactly(tmp_path, whole):
    for num_done, before in [(10, None), (14, 10)]:
        path = before and tmp_path / f"step={before}.ckpt"
        Run(callbacks=[checkpoints_of(tmp_path, every_n_train_steps=2)], max_steps=num_done, ckpt_path=path)
    assert_continues(Run(ckpt_path=tmp_path / "step=14.ckpt"), whole, 14)


def test_a_batch_that_failed_is_repeated(tmp_path, whole):
    with pytest.raises(RuntimeError, match="out of memory"):
        Run(make_recognizer(fails_at=10), callbacks=[OnExceptionCheckpoint(tmp_path)])
    assert_continues(Run(ckpt_path=tmp_path / "on_exception.ckpt"), whole, 10)


class Seeds(Dataset):
    """The seed of the worker that loads, in the place of speech."""

    def __getitem__(self, index: int) -> int:
        return torch.initial_seed()


def test_loading_leaves_the_global_generator_alone_and_seeds_workers_by_epoch():
    def seeds_of_epochs(**options) -> list[set[int]]:
        sampler = toy.Toy().sampler(**options)
        loader = ResumableLoader(DataLoader(Seeds(), batch_sampler=sampler, num_workers=1, collate_fn=set))
        seeds = []
        for epoch in (0, 1, 0):
            sampler.set_epoch(epoch)
            seeds.append(next(iter(loader)))
        return seeds

    before = torch.get_rng_state()
    first, second, again = seeds_of_epochs()
    assert torch.equal(torch.get_rng_state(), before)
    assert first == again != second
    assert first != seeds_of_epochs(seed=1)[0]
    assert first != seeds_of_epochs(rank=1, world_size=2)[0]


def test_the_generator_of_a_loader_is_kept():
    generator = torch.Generator().manual_seed(5)
    loader = make_loader(Counting(toy.Toy()), generator=generator)
    next(iter(loader))
    assert loader.loader.generator is generator
    assert not torch.equal(generator.get_state(), torch.Generator().manual_seed(5).get_state())  # it drew


def test_workers_are_seeded_and_ended_as_usual(monkeypatch):
    monkeypatch.setenv("PL_SEED_WORKERS", "1")  # as `seed_everything(workers=True)` does
    loader = make_loader(Counting(toy.Toy()), num_workers=1, persistent_workers=True)
    Run(data=loader, max_epochs=1, limit_train_batches=1)
    assert loader.loader.worker_init_fn.keywords == {"rank": 0}
    assert not multiprocessing.active_children()


def test_validation_changes_nothing_in_training_and_neither_does_the_sanity_check(whole):
    run = Run(development=development_data(), val_check_interval=0.5, num_sanity_val_steps=2)
    seen, weights = run.recognizer.weights_in_validation, run.recognizer.weights
    assert len(seen) == 2 + 4 * 3
    assert all(torch.equal(each, toy.make_criterion().weights) for each in seen[:2])
    assert all(torch.equal(each, weights[BATCHES_AN_EPOCH // 2 - 1]) for each in seen[2:5])
    torch.testing.assert_close(weights, whole.recognizer.weights, rtol=0, atol=0)
    run.trainer.validate(run.recognizer, development_data(), verbose=False)
    assert torch.equal(run.recognizer.criterion.weights, weights[-1])


def test_weights_are_in_the_logger_and_can_be_monitored(tmp_path):
    run = Run(logger=CSVLogger(tmp_path, name="", version=""), log_every_n_steps=5)
    with open(tmp_path / "metrics.csv") as file:
        rows = list(csv.DictReader(file))
    logged = torch.tensor([[float(row[f"weight/{name}"]) for name in toy.LANGUAGES] for row in rows])
    torch.testing.assert_close(logged, torch.stack(run.recognizer.weights)[4::5])
    assert run.trainer.callback_metrics["weight/noisy"] == logged[-1][2]


def test_several_objectives_are_logged_apart():
    recognizer = make_recognizer()
    recognizer.second = ctcdro.erm(2)
    run = Run(recognizer, max_epochs=1, limit_train_batches=1, log_every_n_steps=1)
    assert {"weight/second/0", "weight/criterion.objective/noisy"} <= run.trainer.callback_metrics.keys()


def test_a_model_that_breaks_stops_the_run_and_is_never_the_best(tmp_path):
    best = ModelCheckpoint(tmp_path, filename="{epoch}", monitor="loss")
    run = Run(
        make_recognizer(breaks_at=BATCHES_AN_EPOCH + 5),
        development=development_data(),
        callbacks=[best, EarlyStopping("loss", patience=100)],
        max_epochs=4,
    )
    assert run.trainer.callback_metrics["loss"].isnan()
    assert run.trainer.current_epoch == 2  # stopped after the epoch in which it broke
    assert Path(best.best_model_path).name == "epoch=0.ckpt"


@pytest.mark.parametrize(("limit", "num_accumulated", "warns"), [(1.0, 1, True), (1000.0, 1, False), (1.0, 3, False)])
def test_clipping_that_would_undo_the_weights_is_warned_of(caplog, limit, num_accumulated, warns):
    options = {"gradient_clip_val": limit, "accumulate_grad_batches": num_accumulated}
    Run(max_epochs=1, limit_train_batches=1, **options)
    assert ("`gradient_clip_val` is 1," in caplog.text) is warns


def test_a_module_without_an_objective_is_refused():
    recognizer = make_recognizer()
    recognizer.criterion = None
    with pytest.raises(ValueError, match=r"Recognizer must have a ctcdro objective .* it has none"):
        Run(recognizer)


def test_a_plain_loader_is_refused():
    corpus = Counting(toy.Toy())
    loader = DataLoader(corpus, batch_sampler=corpus.corpus.sampler(), collate_fn=collate)
    with pytest.raises(ValueError, match=r"DataLoader with LengthMatchedBatchSampler\. .* Wrap it: .*ResumableLoader"):
        Run(data={"speech": [loader]})


def test_a_forgotten_callback_is_reported_when_the_batches_are_repeated(caplog):
    corpus = Counting(toy.Toy(30))
    loader = DataLoader(corpus, batch_sampler=corpus.corpus.sampler(), collate_fn=collate)
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    lightning.Trainer(accelerator="cpu", devices=1, max_epochs=3, **quiet).fit(make_recognizer(), loader)
    assert caplog.text.count("The sampler starts epoch 0 again, with the same batches.") == 1


def test_checkpoints_are_moved_from_the_temporary_folder(tmp_path, monkeypatch):
    """Atomic within a file system, so the docs ask for a temporary folder on that of the checkpoints."""
    moved, move = [], shutil.move
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # as TMPDIR does
    monkeypatch.setattr(shutil, "move", lambda *paths: moved.append([Path(path) for path in paths]) or move(*paths))
    Run(callbacks=[checkpoints_of(tmp_path / "checkpoints", every_n_train_steps=1)], max_steps=1)
    ((source, target),) = moved
    assert source.parent == tmp_path
    assert target == tmp_path / "checkpoints" / "step=1.ckpt"


def test_a_sampler_of_another_rank_is_refused():
    with pytest.raises(ValueError, match=r"created for \(rank, world size\) \(1, 2\), but this process is \(0, 1\)"):
        Run(sampler=toy.Toy().sampler(rank=1, world_size=2))


def test_a_checkpoint_of_other_data_or_processes_is_refused(tmp_path):
    Run(callbacks=[checkpoints_of(tmp_path, every_n_train_steps=5)], max_steps=5)
    with pytest.raises(ValueError, match=r"seed: 0 → 1"):
        Run(ckpt_path=tmp_path / "step=5.ckpt", sampler=toy.Toy().sampler(exponent=1.0, seed=1))
    checkpoint = torch.load(tmp_path / "step=5.ckpt")
    (saved,) = checkpoint["ctcdro"]["loaders"]
    loader = make_loader(Counting(toy.Toy()))
    with pytest.raises(ValueError, match=r"epoch with 2 process\(es\), but this run has 1; .* Resume with 2, or"):
        loader.load_state_dict({**saved, "world_size": 2})


def test_generators_of_another_number_of_processes_are_reported(tmp_path, caplog):
    Run(callbacks=[checkpoints_of(tmp_path, every_n_epochs=1)], max_epochs=1)
    path = tmp_path / f"step={BATCHES_AN_EPOCH}.ckpt"
    checkpoint = torch.load(path)
    checkpoint["ctcdro"]["generators"] *= 2
    torch.save(checkpoint, path)
    Run(ckpt_path=path)
    assert "the random generators of 2 process(es), but this run has 1" in caplog.text


def test_the_example_gives_the_noisy_language_the_most_weight_and_resumes(tmp_path):
    main = runpy.run_path(str(EXAMPLE))["main"]
    main(str(tmp_path), num_epochs=1)
    trainer = main(str(tmp_path), num_epochs=3)
    assert trainer.global_step == 3 * trainer.num_training_batches  # it resumed
    metrics = trainer.callback_metrics
    assert metrics["weight/noisy"] > metrics["weight/plain"] > metrics["weight/clear"]
    assert metrics["cer/worst"] == max(metrics[f"cer/{name}"] for name in ("clear", "plain", "noisy"))
    assert trainer.checkpoint_callback.best_model_score <= metrics["cer/worst"]  # the best for the worst


def test_the_example_stopped_in_the_middle_of_an_epoch_ends_with_the_same_parameters(tmp_path):
    expected = runpy.run_path(str(EXAMPLE))["main"](str(tmp_path / "whole"), num_epochs=2)
    example = runpy.run_path(str(EXAMPLE))
    step = example["Recognizer"].training_step

    def failing_step(recognizer, batch, batch_idx):
        if recognizer.global_step == 50:
            raise RuntimeError("the power fails")
        return step(recognizer, batch, batch_idx)

    example["Recognizer"].training_step = failing_step
    with pytest.raises(RuntimeError, match="the power fails"):
        example["main"](str(tmp_path / "stopped"), num_epochs=2)
    resumed = runpy.run_path(str(EXAMPLE))["main"](str(tmp_path / "stopped"), num_epochs=2)
    states = [trainer.lightning_module.state_dict() for trainer in (resumed, expected)]
    torch.testing.assert_close(*states, rtol=0, atol=0)


def test_the_example_changes_fewer_than_ten_lines():
    changed = [line for line in EXAMPLE.read_text().splitlines() if line.endswith("# ctcdro")]
    assert len(changed) == 7


@pytest.mark.faults
def test_killed_at_random_moments_a_run_ends_with_the_same_bytes(tmp_path):
    assert_kills_change_nothing(Path(__file__).with_name("killed_lightning.py"), tmp_path, num_kills=20)


# Two processes.


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory) -> list[dict]:
    folder = tmp_path_factory.mktemp("ranks")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", __file__, folder]
    subprocess.run(command, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, timeout=600)
    return [torch.load(folder / f"{rank}.pt") for rank in (0, 1)]


@pytest.mark.parametrize("method", ["ctc-dro", "error-weighted"])
def test_two_ranks_hold_the_same_weights_and_parameters(two_ranks, method):
    first, second = two_ranks if method == "ctc-dro" else (result[method] for result in two_ranks)
    assert first["weights"][-1].std() > 0.01
    torch.testing.assert_close(first["weights"], second["weights"], rtol=0, atol=0)
    torch.testing.assert_close(first["state"], second["state"], rtol=0, atol=0)


def test_two_ranks_give_the_weights_that_one_process_would(two_ranks):
    torch.testing.assert_close(torch.stack(two_ranks[0]["plain"]["weights"]), toy.loop_of_two(NUM_EPOCHS, exponent=1.0))


def test_two_ranks_share_the_batches_once(two_ranks):
    plan = toy.Toy().sampler(exponent=1.0)
    turns = -(-BATCHES_AN_EPOCH // 2)
    for rank, result in enumerate(two_ranks):
        for epoch in range(NUM_EPOCHS):
            batches = [list(batch) for batch in plan.plan(epoch)]
            own = result["batches"][epoch * turns : (epoch + 1) * turns]
            assert own == [batches[number % len(batches)] for number in range(rank, 2 * turns, 2)]


def test_two_ranks_continue_exactly_in_the_middle_of_an_epoch(two_ranks):
    for result in two_ranks:
        assert result["resumed"]["batches"] == result["batches"][10:]
        torch.testing.assert_close(result["resumed"]["weights"], result["weights"][10:], rtol=0, atol=0)
        torch.testing.assert_close(result["resumed"]["state"], result["state"], rtol=0, atol=0)


def test_development_data_are_shared_among_two_ranks_as_usual(two_ranks):
    assert [result["num_validated"] for result in two_ranks] == [2, 2]  # of 3 batches


def test_a_plain_loader_on_two_ranks_is_refused_with_the_setting_named(two_ranks):
    assert all("use_distributed_sampler=False" in result["refusal"] for result in two_ranks)


def main(folder: Path) -> None:
    """What each of two processes does, with Lightning's own settings."""
    ranks = {"devices": 2, "strategy": "ddp"}
    plain = Run(make_recognizer(draws=False), **ranks)
    whole = Run(callbacks=[checkpoints_of(folder, every_n_train_steps=10)], **ranks)
    resumed = Run(ckpt_path=folder / "step=10.ckpt", **ranks)
    error_weighted = adaptive_run(**ranks)
    validated = Run(
        development=development_data(), max_epochs=1, limit_train_batches=1, num_sanity_val_steps=0, **ranks
    )
    corpus = Counting(toy.Toy())
    try:
        Run(data=DataLoader(corpus, batch_sampler=corpus.corpus.sampler(), collate_fn=collate), **ranks)
    except TypeError as error:
        refusal = str(error)

    def seen(run: Run) -> dict:
        recognizer = run.recognizer
        return {"batches": recognizer.batches, "weights": recognizer.weights, "state": recognizer.state_dict()}

    result = {
        **seen(whole),
        "plain": seen(plain),
        "resumed": seen(resumed),
        "error-weighted": seen(error_weighted),
        "num_validated": len(validated.recognizer.weights_in_validation),
        "refusal": refusal,
    }
    torch.save(result, folder / f"{whole.trainer.global_rank}.pt")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
