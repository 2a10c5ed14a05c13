"""SpeechBrain's own Brain, loader, checkpointer and logger, with the loss and the batches of ctcdro.

As a program it is what `torchrun` starts: python test_speechbrain.py folder '{"stop_after": 7, …}'
"""

from __future__ import annotations

import io
import json
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import pytest
import speechbrain as sb
import torch
import toy
from hyperpyyaml import load_hyperpyyaml
from kills import assert_kills_change_nothing
from speechbrain.dataio.dataset import DynamicItemDataset
from speechbrain.nnet.losses import ctc_loss
from speechbrain.utils.checkpoints import mark_as_loader, mark_as_saver, register_checkpoint_hooks
from speechbrain.utils.epoch_loop import EpochCounter
from speechbrain.utils.train_logger import FileTrainLogger

import ctcdro
from ctcdro.integrations.speechbrain import AtomicCheckpointer, RobustCTCLoss, group_names, train_loader

EXAMPLE = Path(__file__).parents[2] / "examples" / "speechbrain_ctc.py"
NUM_EPOCHS = 2
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]


def make_dataset(corpus: toy.Toy, loaded: Path) -> DynamicItemDataset:
    """The corpus; whatever is loaded is noted in a file, for workers to write to as well."""
    annotation = {
        f"utterance-{number}": {"number": number, "duration": spoken.duration, "lang": toy.LANGUAGES[spoken.group]}
        for number, spoken in enumerate(corpus.utterances)
    }

    def load(number: int):
        with loaded.open("a") as file:
            print(number, file=file)
        yield corpus[number].frames
        yield corpus[number].labels

    dataset = DynamicItemDataset(annotation)
    dataset.add_dynamic_item(load, takes=["number"], provides=["frames", "labels"])
    dataset.set_output_keys(["number", "frames", "labels", "lang"])
    return dataset


def make_loss(objective: ctcdro.Objective | None = None) -> RobustCTCLoss:
    names = list(toy.LANGUAGES)
    options = {"step_size": toy.STEP_SIZE, "smoothing": toy.SMOOTHING, "group_names": names}
    return RobustCTCLoss(objective or ctcdro.ctc_dro(len(names), **options), blank_index=0)


class Killed(BaseException):
    """An exception that nothing catches."""


class Recognizer(sb.Brain):
    """Notes the batches that come and the weights after each; is killed at the first checkpoint within an epoch."""

    breaks_at: int | None = None
    last_stage = sb.Stage.TRAIN  # of an epoch

    def compute_forward(self, batch, stage):
        frames, frame_lens = batch.to(self.device).frames
        return self.modules.model(frames).log_softmax(-1), frame_lens

    def compute_objectives(self, predictions, batch, stage):
        (log_probs, frame_lens), (labels, label_lens) = predictions, batch.labels
        return self.hparams.ctc(log_probs, labels, frame_lens, label_lens, batch.lang, stage)

    def on_fit_start(self):
        super().on_fit_start()
        self.batches, self.weights = [], []

    def on_fit_batch_end(self, batch, outputs, loss, should_step):
        if len(self.batches) == self.breaks_at:
            torch.nn.init.constant_(next(self.modules.parameters()), torch.nan)
        self.batches.append(torch.as_tensor(batch.number).tolist())
        self.weights.append(self.hparams.ctc.objective.weights.clone())

    def _save_intra_epoch_ckpt(self):
        super()._save_intra_epoch_ckpt()
        raise Killed

    def on_stage_end(self, stage, stage_loss, epoch=None):
        if stage == sb.Stage.TRAIN:
            self.train_stats = {"loss": stage_loss, **self.hparams.ctc.stats()}
            self.hparams.train_logger.log_stats({"epoch": epoch}, self.train_stats)
        if self.hparams.ctc.objective.needs_error_rates and stage == sb.Stage.VALID:
            self.hparams.ctc.objective.update_error_rates(toy.error_rates(self.modules.model, toy.Toy(31, seed=1)))
        if stage == self.last_stage:
            self.checkpointer.save_and_keep_only()


def run(
    folder: Path,
    *,
    epochs=None,
    stop_after: int | None = None,
    valid: bool = False,
    num_workers: int = 0,
    objective: ctcdro.Objective | None = None,
    max_grad_norm: float = 1e9,
    draws: bool = True,
    breaks_at: int | None = None,
    **options,
) -> Recognizer:
    """Trains, or resumes; after `stop_after` batches it saves a checkpoint and is killed."""
    toy.seed_everything(1 if folder.exists() and any(folder.iterdir()) else 0)  # a checkpoint has the generators
    folder.mkdir(exist_ok=True)
    run_opts = {
        "device": "cpu",
        "distributed_backend": "gloo",
        "noprogressbar": True,
        "ckpt_interval_steps": stop_after or 0,
        "max_grad_norm": max_grad_norm,
    }
    sb.utils.distributed.ddp_init_group(run_opts)
    loaded = Path(tempfile.mkstemp(dir=folder)[1])
    model = toy.make_random_model() if draws else toy.make_model()
    dataset, loss = make_dataset(toy.Toy(), loaded), make_loss(objective)
    epochs = EpochCounter(NUM_EPOCHS) if epochs is None else epochs
    recoverables = {"model": model, **({"epochs": epochs} if isinstance(epochs, EpochCounter) else {})}
    brain = Recognizer(
        {"model": model},
        partial(torch.optim.Adam, lr=toy.LEARNING_RATE),
        {"ctc": loss, "train_logger": FileTrainLogger(folder / "log.txt")},
        run_opts,
        AtomicCheckpointer(folder / "save", recoverables),
    )
    brain.loaded, brain.breaks_at = loaded, breaks_at
    options = {"batch_duration": toy.BATCH_DURATION, "num_workers": num_workers, **options}
    loader = train_loader(brain, dataset, loss, "lang", **options)
    brain.last_stage = sb.Stage.VALID if valid else sb.Stage.TRAIN
    valid_data = make_dataset(toy.Toy(30, seed=1), folder / "valid.txt") if valid else None
    if valid:
        valid_data.data["utterance-0"]["lang"] = "a language that is not in training"
    try:
        brain.fit(epochs, loader, valid_data, valid_loader_kwargs={"batch_size": 4})
    except Killed:
        if num_workers > 0:
            loader._speechbrain_iterator._shutdown_workers()  # left to the garbage collector they take seconds
    return brain


def parameters(brain: sb.Brain) -> torch.Tensor:
    return torch.nn.utils.parameters_to_vector(brain.modules.parameters()).detach()


def loaded_only_what_came(brain: Recognizer) -> bool:
    loaded = [int(line) for line in brain.loaded.read_text().split()]
    return sorted(loaded) == sorted(number for batch in brain.batches for number in batch)


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Recognizer:
    """A run that was not stopped."""
    return run(tmp_path_factory.mktemp("whole"))


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("valid", [False, True])
def test_weights_are_those_of_the_plain_loop(tmp_path, num_workers, valid):
    brain = run(tmp_path, epochs=range(NUM_EPOCHS), num_workers=num_workers, valid=valid, draws=False)
    torch.testing.assert_close(torch.stack(brain.weights), toy.plain_loop(NUM_EPOCHS))


def test_evaluation_moves_nothing(tmp_path):
    brain = run(tmp_path, epochs=range(1))
    before = {name: value.clone() for name, value in brain.hparams.ctc.state_dict().items()}
    loss = brain.evaluate(make_dataset(toy.Toy(30, seed=1), tmp_path / "test.txt"), progressbar=False)
    assert loss > 0
    torch.testing.assert_close(brain.hparams.ctc.state_dict(), before, rtol=0, atol=0)


def test_epochs_that_a_counter_counts_are_those_of_the_sampler(whole):
    sampler = toy.Toy().sampler()
    batches = []
    for epoch in 1, 2:
        sampler.set_epoch(epoch)
        batches += list(sampler)
    assert whole.batches == batches


def test_every_utterance_occurs_once_per_epoch_with_exponent_1(tmp_path):
    brain = run(tmp_path, epochs=range(1), exponent=1.0)
    assert sorted(number for batch in brain.batches for number in batch) == list(range(len(toy.Toy())))


@pytest.mark.parametrize("num_workers", [0, 2])
def test_run_stopped_twice_resumes_exactly(tmp_path, whole, num_workers):
    num_batches = len(whole.batches)
    stops = [7, num_batches // 2 - 2, num_batches]  # twice in the first epoch, so that it resumes from a resumed one
    batches, weights = [], []
    for stop in stops:
        brain = run(tmp_path, stop_after=stop - len(batches), num_workers=num_workers)
        batches, weights = batches + brain.batches, weights + brain.weights
        assert num_workers > 0 or loaded_only_what_came(brain)  # workers load ahead
    assert loaded_only_what_came(brain)
    assert batches == whole.batches
    torch.testing.assert_close(torch.stack(weights), torch.stack(whole.weights), rtol=0, atol=0)
    torch.testing.assert_close(parameters(brain), parameters(whole), rtol=0, atol=0)


def test_run_stopped_between_epochs_resumes_exactly(tmp_path, whole):
    first = run(tmp_path, epochs=EpochCounter(1))
    second = run(tmp_path, epochs=EpochCounter(2))
    assert first.batches + second.batches == whole.batches
    torch.testing.assert_close(parameters(second), parameters(whole), rtol=0, atol=0)


def error_weighted(**options) -> ctcdro.Objective:
    return toy.make_error_weighted(**options).objective


def test_adaptive_batches_and_error_weights_are_those_of_the_plain_loop(tmp_path):
    brain = run(tmp_path, objective=error_weighted(), draws=False)
    batches, weights = toy.adaptive_loop(toy.make_error_weighted(), NUM_EPOCHS, first_epoch=1)
    assert brain.batches == batches
    torch.testing.assert_close(torch.stack(brain.weights), weights)
    toy.assert_shares_follow_weights(batches, weights)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_adaptive_batches_resume_exactly_in_the_middle_of_a_round(tmp_path, num_workers):
    whole = run(tmp_path / "whole", objective=error_weighted(), num_workers=num_workers)
    batches = []
    for stop_after in (7, 10, None):  # resumes from a resumed run
        brain = run(tmp_path / "rest", stop_after=stop_after, objective=error_weighted(), num_workers=num_workers)
        batches += brain.batches
    assert batches == whole.batches
    torch.testing.assert_close(brain.weights[-1], whole.weights[-1], rtol=0, atol=0)
    torch.testing.assert_close(parameters(brain), parameters(whole), rtol=0, atol=0)


def test_error_weights_follow_validations_and_resume_exactly(tmp_path):
    def train(folder: str, num_epochs: int, stop_after: int | None = None) -> Recognizer:
        objective = error_weighted(signal="error_rate")
        options = {"valid": True, "draws": False, "stop_after": stop_after}
        return run(tmp_path / folder, epochs=EpochCounter(num_epochs), objective=objective, **options)

    criterion = toy.make_error_weighted(signal="error_rate")

    def update(model: torch.nn.Module) -> None:
        criterion.objective.update_error_rates(toy.error_rates(model, toy.Toy(31, seed=1)))

    expected, weights = toy.adaptive_loop(criterion, num_epochs=4, first_epoch=1, after_epoch=update)
    whole = train("whole", 4)
    assert whole.batches == expected
    torch.testing.assert_close(torch.stack(whole.weights), weights)
    toy.assert_shares_follow_weights(expected, weights)
    parts = [train("parts", 3), train("parts", 4, stop_after=10), train("parts", 4)]
    assert [batch for part in parts for batch in part.batches] == whole.batches
    torch.testing.assert_close(parameters(parts[-1]), parameters(whole), rtol=0, atol=0)


@register_checkpoint_hooks
class LastFile:
    """A recoverable whose saving is killed, if asked to."""

    def __init__(self) -> None:
        self.is_killed = False

    @mark_as_saver
    def save(self, path: Path) -> None:
        if self.is_killed:
            path.write_text("hal")
            raise Killed
        path.write_text("whole")

    @mark_as_loader
    def load(self, path: Path, end_of_epoch: bool) -> None:
        assert path.read_text() == "whole"


def test_checkpoint_that_was_not_finished_is_no_checkpoint(tmp_path):
    last, step = LastFile(), EpochCounter(100)
    checkpointer = AtomicCheckpointer(tmp_path, {"step": step, "last": last})
    for step.current in (1, 2):
        checkpointer.save_and_keep_only()
    last.is_killed, step.current = True, 3
    with pytest.raises(Killed):
        checkpointer.save_checkpoint()
    assert len(list(tmp_path.iterdir())) == 2  # the finished one, and what is left of the other

    resumed = EpochCounter(100)
    AtomicCheckpointer(tmp_path, {"step": resumed, "last": LastFile()}).recover_if_possible()
    assert resumed.current == 2
    last.is_killed, step.current = False, 4
    checkpointer.save_and_keep_only(name="best")
    step.current = 5
    checkpointer.save_and_keep_only(name="best")  # in the place of the former
    assert [path.name for path in tmp_path.iterdir()] == ["CKPT+best"]
    checkpointer.recover_if_possible()
    assert step.current == 5


def test_loading_leaves_the_global_generator_alone(tmp_path):
    brain = run(tmp_path, epochs=range(1), draws=False)
    before = torch.get_rng_state()
    loader = train_loader(brain, make_dataset(toy.Toy(), tmp_path / "loaded.txt"), brain.hparams.ctc, "lang")
    next(iter(loader))
    assert torch.equal(torch.get_rng_state(), before)


def test_checkpoint_that_is_loaded_to_be_evaluated_leaves_the_generators_alone(tmp_path):
    brain = run(tmp_path, epochs=range(1))
    torch.rand(1)
    before = torch.get_rng_state()
    brain.on_evaluate_start()
    assert torch.equal(torch.get_rng_state(), before)


def test_checkpoint_has_plain_tensors_and_json(tmp_path):
    brain = run(tmp_path, stop_after=5)
    (checkpoint,) = brain.checkpointer.list_checkpoints()
    state = torch.load(checkpoint.paramfiles["ctcdro"], weights_only=True)
    torch.testing.assert_close(state["objective.log_weights"].exp(), brain.weights[-1])
    position = json.loads(checkpoint.paramfiles["dataloader-TRAIN"].read_text())["sampler"]
    assert (position["epoch"], position["position"]) == (1, 5)


def test_logger_has_the_weights(tmp_path):
    run(tmp_path, epochs=EpochCounter(1))
    (line,) = (tmp_path / "log.txt").read_text().splitlines()
    for name in toy.LANGUAGES:
        assert f"train weight/{name}: " in line
    assert "train num_skipped: 0" in line


def launch(folder: Path, **options) -> list[dict]:
    """What each of two processes noted."""
    command = [sys.executable, *TORCHRUN, __file__, folder, json.dumps(options)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [torch.load(folder / f"rank-{rank}.pt") for rank in (0, 1)]


def main(folder: Path, options: str) -> None:
    brain = run(folder, **json.loads(options))
    noted = {"batches": brain.batches, "weights": torch.stack(brain.weights), "parameters": parameters(brain)}
    torch.save(noted, folder / f"rank-{torch.distributed.get_rank()}.pt")
    torch.distributed.destroy_process_group()


@pytest.fixture(scope="module")
def whole_of_two(tmp_path_factory) -> list[dict]:
    """What two processes noted in a run that was not stopped."""
    return launch(tmp_path_factory.mktemp("whole_of_two"))


def test_two_processes_share_the_batches_and_hold_the_same_weights(tmp_path, whole):
    first, second = launch(tmp_path, draws=False)
    assert torch.equal(first["weights"], second["weights"])
    assert torch.equal(first["parameters"], second["parameters"])
    torch.testing.assert_close(first["weights"], toy.loop_of_two(NUM_EPOCHS, first_epoch=1), rtol=1e-4, atol=1e-5)
    in_turns = [batch for turn in zip(first["batches"], second["batches"], strict=True) for batch in turn]
    half = len(whole.batches) // 2
    filled = half + half % 2
    assert in_turns[:half] == whole.batches[:half]
    assert in_turns[filled : filled + half] == whole.batches[half:]


def test_two_processes_resume_exactly_and_so_does_one_instead(tmp_path, whole_of_two, whole):
    stopped = launch(tmp_path / "two", stop_after=5)
    shutil.copytree(tmp_path / "two", tmp_path / "one")
    resumed = launch(tmp_path / "two")
    for rank in (0, 1):
        assert stopped[rank]["batches"] + resumed[rank]["batches"] == whole_of_two[rank]["batches"]
        assert torch.equal(resumed[rank]["parameters"], whole_of_two[rank]["parameters"])
        assert torch.equal(resumed[rank]["weights"], whole_of_two[rank]["weights"][5:])

    alone = run(tmp_path / "one")
    assert alone.batches == whole.batches[10:]
    assert loaded_only_what_came(alone)


def test_clipping_as_by_default_keeps_the_weights_from_the_model(tmp_path, caplog):
    robust = run(tmp_path / "robust", epochs=range(1), max_grad_norm=5.0, draws=False)
    assert "`max_grad_norm` is 5" in caplog.text
    plain = run(tmp_path / "plain", epochs=range(1), max_grad_norm=5.0, objective=erm(), draws=False)
    assert (robust.weights[-1] - plain.weights[-1]).abs().max() > 0.01
    torch.testing.assert_close(parameters(robust), parameters(plain), rtol=1e-3, atol=1e-3)
    caplog.clear()
    unclipped = run(tmp_path / "unclipped", epochs=range(1), draws=False)
    assert "max_grad_norm" not in caplog.text
    assert (parameters(unclipped) - parameters(robust)).abs().max() > 0.01


def test_model_that_breaks_is_stopped_by_the_brain(tmp_path):
    with pytest.raises(ValueError, match="Loss is not finite and patience is exhausted"):
        run(tmp_path, breaks_at=5)


def erm() -> ctcdro.Objective:
    return ctcdro.erm(len(toy.LANGUAGES), group_names=list(toy.LANGUAGES))


def some_batch() -> dict:
    batch = toy.collate(toy.Toy().utterances[:6])
    return {
        "log_probs": torch.randn(*batch.frames.shape[:2], toy.NUM_LABELS).log_softmax(-1),
        "targets": batch.labels,
        "input_lens": batch.num_frames / batch.frames.shape[1],
        "target_lens": batch.num_labels / batch.labels.shape[1],
        "groups": [toy.LANGUAGES[group] for group in batch.groups],
        "stage": sb.Stage.TRAIN,
    }


def test_loss_of_other_stages_is_the_sum_of_speechbrains():
    batch = some_batch()
    tensors = [batch[name] for name in ("log_probs", "targets", "input_lens", "target_lens")]
    expected = ctc_loss(*tensors, blank_index=0, reduction="sum")
    torch.testing.assert_close(make_loss()(**batch | {"stage": sb.Stage.VALID}), expected)
    torch.testing.assert_close(make_loss(erm())(**batch), expected)


def test_loss_per_character_does_not_count_language_tokens():
    batch, weights = some_batch(), []
    names = list(toy.LANGUAGES)
    for num_language_tokens in (0, 1):
        objective = ctcdro.ctc_dro(3, step_size=1e-2, smoothing=0.5, signal="loss_per_character", group_names=names)
        RobustCTCLoss(objective, num_language_tokens=num_language_tokens)(**batch)
        weights.append(objective.weights)
    expected = ctcdro.ctc_dro(3, step_size=1e-2, smoothing=0.5, signal="loss_per_character", group_names=names)
    num_frames, num_labels = (
        (batch[name] * length).round().int()
        for name, length in (("input_lens", batch["log_probs"].shape[1]), ("target_lens", batch["targets"].shape[1]))
    )
    losses = ctcdro.ctc_losses(batch["log_probs"].transpose(0, 1), batch["targets"], num_frames, num_labels)
    expected(losses, batch["groups"], num_labels - 1)
    torch.testing.assert_close(weights[1], expected.weights)
    assert not torch.allclose(weights[0], weights[1])


def test_utterance_that_does_not_fit_is_counted():
    batch, loss = some_batch(), make_loss()
    batch["input_lens"][0] = 0.01
    assert loss(**batch).isfinite()
    assert loss.stats()["num_skipped"] == 1


def test_loss_can_be_made_in_a_recipe():
    recipe = """
        objective: !apply:ctcdro.ctc_dro
            num_groups: 2
            step_size: 0.0001
            smoothing: 0.1
            group_names: [ces, tam]
        ctc: !new:ctcdro.integrations.speechbrain.RobustCTCLoss
            objective: !ref <objective>
            blank_index: 0
    """
    assert load_hyperpyyaml(io.StringIO(recipe))["ctc"].objective.group_names == ["ces", "tam"]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"groups": ["clear"] * 5 + ["unheard"]}, "`groups` contains 'unheard', which is not in `group_names`: clear"),
        ({"groups": ["clear"]}, r"one entry per utterance.*got \(6,\) and \(1,\)"),
        ({"input_lens": torch.full((6,), 50)}, "`input_lengths`: utterance 0 has .* frames, but `log_probs` has"),
        ({"log_probs": torch.zeros(50, 6, toy.NUM_LABELS)}, "would be 50 utterances"),
    ],
)
def test_loss_names_what_is_wrong(changed, message):
    with pytest.raises(ValueError, match=message):
        make_loss()(**some_batch() | changed)


def test_objective_must_have_names():
    with pytest.raises(ValueError, match="`objective` must have group names"):
        RobustCTCLoss(ctcdro.erm(3))


@pytest.mark.parametrize(("name", "value"), [("batch_size", 8), ("shuffle", True)])
def test_options_that_would_change_the_batches_are_rejected(tmp_path, name, value):
    with pytest.raises(ValueError, match=r"batch_sampler.*mutually exclusive"):
        run(tmp_path, **{name: value})


def test_annotation_without_groups_or_durations_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"`duration_key`: utterance 'utterance-0' has no 'seconds'.*only number"):
        run(tmp_path, duration_key="seconds")
    dataset = make_dataset(toy.Toy(3), tmp_path / "loaded.txt")
    with pytest.raises(ValueError, match=r"`group_key`: utterance 'utterance-0' has no 'language'.*dynamic items"):
        group_names(dataset, "language")


def test_other_groups_than_those_of_the_loss_are_refused(tmp_path):
    with pytest.raises(ValueError, match="`dataset` has the groups clear, noisy, plain, but `loss` has clear, plain"):
        run(tmp_path, objective=ctcdro.erm(2, group_names=["clear", "plain"]))


def test_position_in_other_batches_is_refused(tmp_path):
    run(tmp_path, stop_after=5)
    with pytest.raises(ValueError, match=r"batch_duration: 12\.0 → 10\.0"):
        run(tmp_path, batch_duration=10.0)


def test_position_of_another_loader_is_refused(tmp_path):
    brain = run(tmp_path, stop_after=5)
    (checkpoint,) = brain.checkpointer.list_checkpoints()
    checkpoint.paramfiles["dataloader-TRAIN"].write_text("37")
    with pytest.raises(ValueError, match="saved after 37 batches by a loader with other batches"):
        run(tmp_path)


def test_checkpoint_without_weights_is_refused(tmp_path):
    brain = run(tmp_path, stop_after=5)
    (checkpoint,) = brain.checkpointer.list_checkpoints()
    checkpoint.paramfiles["ctcdro"].unlink()
    with pytest.raises(RuntimeError, match="missing a load path for ctcdro"):
        run(tmp_path)


@pytest.mark.parametrize("launcher", [[], TORCHRUN], ids=["one process", "two"])
def test_example_runs(tmp_path, launcher):
    done = subprocess.run([sys.executable, *launcher, EXAMPLE, tmp_path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(set(re.findall(r"{.*?}", done.stdout))) == 1  # the same weights in all processes
    assert len((tmp_path / "train_log.txt").read_text().splitlines()) == 4


def test_example_stopped_in_the_middle_of_an_epoch_ends_with_the_same_parameters(tmp_path):
    runpy.run_path(str(EXAMPLE))["main"](tmp_path / "whole", num_epochs=2)
    example = runpy.run_path(str(EXAMPLE))
    fit_batch = sb.Brain.fit_batch

    def failing_fit_batch(brain, batch):
        if brain.optimizer_step == 50:
            raise Killed
        return fit_batch(brain, batch)

    example["Recognizer"].fit_batch = failing_fit_batch
    with pytest.raises(Killed):
        example["main"](tmp_path / "stopped", num_epochs=2)
    runpy.run_path(str(EXAMPLE))["main"](tmp_path / "stopped", num_epochs=2)
    whole, stopped = (max((tmp_path / name / "save").iterdir()) for name in ("whole", "stopped"))
    for file in ("model.ckpt", "ctcdro.ckpt"):
        states = (torch.load(folder / file, weights_only=True) for folder in (stopped, whole))
        torch.testing.assert_close(*states, rtol=0, atol=0)


@pytest.mark.faults
def test_killed_at_random_moments_a_run_ends_with_the_same_bytes(tmp_path):
    assert_kills_change_nothing(Path(__file__).with_name("killed_speechbrain.py"), tmp_path, num_kills=20)


def test_example_changes_less_than_ten_lines():
    changed = [line for line in EXAMPLE.read_text().splitlines() if "  # ctcdro" in line]
    assert 0 < len(changed) < 10


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
