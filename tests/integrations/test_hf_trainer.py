"""The Trainer of transformers: the plain loop's weights, restarts, two processes, and what is refused."""

import doctest
import json
import math
import os
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import peft
import pytest
import torch
import toy
import transformers
from datasets import Dataset
from killed_hf_trainer import make_trainer as wav2vec2_trainer
from kills import assert_kills_change_nothing
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

import ctcdro
from ctcdro.integrations.hf_trainer import (
    ErrorRates,
    RobustSeq2SeqTrainer,
    RobustTrainer,
    error_rates,
    last_checkpoint,
)
from ctcdro.integrations.hf_trainer.checkpoints import OBJECTIVE_FILE, SAMPLER_FILE
from ctcdro.scoring import scores as metrics
from ctcdro.scoring.transcripts import Prediction

EXAMPLES = Path(__file__).parents[2] / "examples"
LETTERS = "_" + "".join(chr(ord("a") + number) for number in range(toy.NUM_LABELS - 1))

# ---- the toy corpus and model, in the form that the Trainer needs


class Items:
    """The toy corpus as dictionaries; `reads` lists the requested items."""

    def __init__(self, corpus, language=True):
        self.corpus, self.language, self.reads = corpus, language, []
        self.language_of = {}  # other names of languages

    def __len__(self):
        return len(self.corpus)

    def __getitem__(self, index):
        self.reads.append(index)
        spoken = self.corpus[index]
        item = {"input_values": spoken.frames, "labels": spoken.labels, "number": index}
        name = toy.LANGUAGES[spoken.group]
        return item | ({"language": self.language_of.get(name, name)} if self.language else {})


def collate(items):
    assert all("language" not in item for item in items)  # an existing collator need not know
    return {
        "input_values": pad_sequence([item["input_values"] for item in items], batch_first=True),
        "attention_mask": pad_sequence([torch.ones(len(item["input_values"])) for item in items], batch_first=True),
        "labels": pad_sequence([item["labels"] for item in items], batch_first=True, padding_value=-100),
        "number": torch.tensor([item["number"] for item in items]),
    }


class ToyModel(torch.nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.config = transformers.PretrainedConfig(pad_token_id=0)
        self.layers, self.dropout = toy.make_model(), torch.nn.Dropout(dropout)

    def forward(self, input_values, attention_mask, number=None, labels=None):
        return {"logits": self.layers(self.dropout(input_values))}


class ToyTrainer(RobustTrainer):
    """Keeps the batches that came, and the weights after each of them."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.batches, self.weights = [], []

    def num_frames(self, inputs):
        return inputs["attention_mask"].sum(-1).long()

    def training_step(self, model, inputs, *args, **kwargs):
        loss = super().training_step(model, inputs, *args, **kwargs)
        self.batches.append(inputs["number"].tolist())
        self.weights.append(self.objective.weights.clone())
        return loss


def make_objective():
    return ctcdro.ctc_dro(
        len(toy.LANGUAGES), step_size=toy.STEP_SIZE, smoothing=toy.SMOOTHING, group_names=toy.LANGUAGES
    )


def make_arguments(folder, kind=transformers.TrainingArguments, **options):
    defaults = {
        **{"num_train_epochs": 2, "lr_scheduler_type": "constant", "max_grad_norm": 0, "logging_steps": 1},
        **{"save_strategy": "no", "disable_tqdm": True, "report_to": "none", "use_cpu": True},
    }
    return kind(output_dir=str(folder), **defaults | options)


def adam(model):
    return torch.optim.Adam(model.parameters(), lr=toy.LEARNING_RATE)


def plain_descent(model):
    return torch.optim.SGD(model.parameters(), lr=1e-4)  # unlike Adam, it sees a gradient that is twice as large


def make_trainer(
    folder, *, optimizer=adam, dropout=0.0, sampler=None, dataset=None, eval_dataset=None, trainer=None, **options
):
    corpus, model = toy.Toy(), ToyModel(dropout)
    return ToyTrainer(
        model,
        make_arguments(folder, **options),
        data_collator=collate,
        train_dataset=Items(corpus) if dataset is None else dataset,
        eval_dataset=eval_dataset,
        optimizers=(optimizer(model), None),
        **{"objective": make_objective(), "batch_sampler": sampler or corpus.sampler(), "group_column": "language"}
        | (trainer or {}),
    )


def parameters(model):
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def logged_weights(trainer):
    logs = [line for line in trainer.state.log_history if "loss" in line]
    return torch.tensor([[line[f"weight/{name}"] for name in toy.LANGUAGES] for line in logs])


# ---- the same as the plain loop


def test_weights_are_those_of_the_plain_loop_and_are_logged(tmp_path):
    trainer = make_trainer(tmp_path)
    trainer.train()
    expected = toy.plain_loop()
    torch.testing.assert_close(torch.stack(trainer.weights), expected, rtol=1e-5, atol=1e-7)
    torch.testing.assert_close(logged_weights(trainer), torch.stack(trainer.weights))


def test_weights_follow_the_loss_per_character_after_a_warmup(tmp_path):
    options = {"signal": "loss_per_character", "warmup_batches": 9, "num_language_tokens": 1, "normalization": "frame"}
    trainer = make_trainer(tmp_path, max_steps=30, trainer={"objective": toy.make_criterion(**options)})
    trainer.train()
    expected = toy.plain_loop(1, toy.make_criterion(**options))[:30]
    torch.testing.assert_close(torch.stack(trainer.weights), expected, rtol=1e-5, atol=1e-7)
    for name in ("signal", "num_language_tokens", "normalization"):
        others = toy.make_criterion(**{option: value for option, value in options.items() if option != name})
        assert not torch.allclose(expected[-1], toy.plain_loop(1, others)[29], atol=1e-6), name


def test_batches_are_those_of_the_sampler_and_with_exponent_1_every_utterance_occurs_once_per_epoch(tmp_path):
    trainer = make_trainer(tmp_path, sampler=toy.Toy().sampler(exponent=1.0))
    trainer.train()
    sampler = toy.Toy().sampler(exponent=1.0)
    epochs = []
    for epoch in range(2):
        sampler.set_epoch(epoch)
        epochs.append([list(batch) for batch in sampler])
    assert trainer.batches == epochs[0] + epochs[1]
    for batches in epochs:
        assert sorted(index for batch in batches for index in batch) == list(range(len(toy.Toy())))


def loop_that_accumulates(num_accumulated):
    """The plain loop: a step is the mean over its batches, of which the last of an epoch has fewer."""
    corpus, model, criterion = toy.Toy(), toy.make_model(), toy.make_criterion()
    optimizer = plain_descent(model)
    batches = list(DataLoader(corpus, batch_sampler=corpus.sampler(), collate_fn=toy.collate))
    assert len(batches) % num_accumulated
    for first in range(0, len(batches), num_accumulated):
        of_step = batches[first : first + num_accumulated]
        for batch in of_step:
            (toy.batch_loss(model, criterion, batch) / len(of_step)).backward()
        optimizer.step()
        optimizer.zero_grad()
    return model, criterion


@pytest.mark.parametrize("accepts_loss_kwargs", [False, True])
def test_accumulated_gradients_are_those_of_the_plain_loop(tmp_path, accepts_loss_kwargs, monkeypatch):
    monkeypatch.setattr(ToyModel, "accepts_loss_kwargs", accepts_loss_kwargs, raising=False)
    trainer = make_trainer(tmp_path, optimizer=plain_descent, gradient_accumulation_steps=4, num_train_epochs=1)
    trainer.train()
    model, criterion = loop_that_accumulates(4)
    torch.testing.assert_close(parameters(trainer.model), parameters(model), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(trainer.objective.weights, criterion.weights, rtol=1e-5, atol=1e-7)


def test_other_objectives_and_samplers_fit_in_the_same_place(tmp_path):
    sampler = ctcdro.SimilarLengthBatchSampler(toy.Toy().durations, batch_size=4)
    objective = ctcdro.group_dro(3, step_size=1e-2, group_names=toy.LANGUAGES)
    trainer = make_trainer(tmp_path, sampler=sampler, max_steps=4, trainer={"objective": objective})
    trainer.train()
    assert trainer.batches == [list(batch) for batch in sampler][:4]
    assert len(torch.stack(trainer.weights).unique(dim=0)) == 4


def test_workers_bring_the_same_batches(tmp_path):
    trainer = make_trainer(tmp_path, dataloader_num_workers=2, max_steps=6, save_strategy="steps", save_steps=4)
    trainer.train()
    assert trainer.batches == [list(batch) for batch in toy.Toy().sampler()][:6]
    state = json.loads((tmp_path / "checkpoint-4" / SAMPLER_FILE).read_text())
    assert (state["epoch"], state["position"]) == (0, 4)  # not what workers have asked for


# ---- resuming


@pytest.mark.parametrize("num_accumulated", [1, 2])
@pytest.mark.parametrize("where", ["in the middle of the first epoch", "between epochs", "in the second epoch"])
def test_a_run_that_resumes_ends_as_one_that_was_never_stopped(tmp_path, where, num_accumulated):
    num_turns = len(toy.Toy().sampler())
    num_steps = -(-num_turns // num_accumulated)
    at = {"in": num_steps // 2, "between": num_steps}.get(where.split()[0])
    at = num_steps + 3 if "second" in where else at
    options = {"save_strategy": "steps", "save_steps": at, "gradient_accumulation_steps": num_accumulated}
    whole = make_trainer(tmp_path, dropout=0.2, **options)
    whole.train()
    rest = make_trainer(tmp_path, dropout=0.2, **options)
    rest.train(resume_from_checkpoint=str(tmp_path / f"checkpoint-{at}"))
    num_done = num_turns * (at // num_steps) + (at % num_steps) * num_accumulated
    assert len(whole.batches) == 2 * num_turns
    assert rest.batches == whole.batches[num_done:]
    assert rest.train_dataset.reads == [index for batch in rest.batches for index in batch]  # and no other audio
    assert torch.equal(torch.stack(rest.weights), torch.stack(whole.weights[num_done:]))
    assert torch.equal(parameters(rest.model), parameters(whole.model))


def test_dropout_layer_drop_and_spec_augment_resume_exactly(tmp_path):
    options = {"num_train_epochs": 2, "save_steps": 11, "save_total_limit": None}
    whole = wav2vec2_trainer(tmp_path, **options)
    whole.train()
    rest = wav2vec2_trainer(tmp_path, **options)
    rest.train(resume_from_checkpoint=str(tmp_path / "checkpoint-11"))
    assert torch.equal(parameters(rest.model), parameters(whole.model))
    assert torch.equal(rest.objective.weights, whole.objective.weights)


class Noisy(Items):
    """Draws noise in the process that reads an item."""

    def __getitem__(self, index):
        item = super().__getitem__(index)
        return item | {"input_values": item["input_values"] + 0.5 * torch.randn(item["input_values"].shape)}


def test_noise_drawn_in_workers_resumes_exactly_between_epochs(tmp_path):
    at = len(toy.Toy().sampler())
    options = {"save_strategy": "steps", "save_steps": at, "dataloader_num_workers": 1}
    whole = make_trainer(tmp_path, dataset=Noisy(toy.Toy()), **options)
    whole.train()
    rest = make_trainer(tmp_path, dataset=Noisy(toy.Toy()), **options)
    rest.train(resume_from_checkpoint=str(tmp_path / f"checkpoint-{at}"))
    assert torch.equal(parameters(rest.model), parameters(whole.model))


def test_passes_over_the_data_draw_nothing_from_the_generator_of_dropout(tmp_path):
    before = torch.get_rng_state()
    for _ in make_trainer(tmp_path).get_train_dataloader():
        pass
    trainer = make_trainer(tmp_path)
    torch.set_rng_state(before)
    next(iter(trainer.get_train_dataloader()))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.faults
def test_killed_at_random_moments_a_run_ends_with_the_same_bytes(tmp_path):
    assert_kills_change_nothing(Path(__file__).with_name("killed_hf_trainer.py"), tmp_path, num_kills=20)


@pytest.mark.parametrize("damage", ["missing", "truncated"])
def test_a_checkpoint_that_was_not_completely_written_is_skipped(tmp_path, damage, caplog):
    options = {"num_train_epochs": 1, "save_strategy": "steps", "save_steps": 6, "dropout": 0.2}
    whole = make_trainer(tmp_path, **options)
    whole.train()
    num_steps = len(whole.batches)
    for step in range(12, num_steps, 6):
        state = tmp_path / f"checkpoint-{step}" / "trainer_state.json"
        state.unlink() if damage == "missing" else state.write_bytes(state.read_bytes()[:-20])
    (tmp_path / "checkpoint-best").mkdir()  # not the Trainer's
    last = tmp_path / f"checkpoint-{num_steps}"  # a Trainer always saves at the end
    assert last_checkpoint(tmp_path) == str(last)
    (last / "trainer_state.json").unlink()
    rest = make_trainer(tmp_path, **options)
    rest.train(resume_from_checkpoint=True)
    assert f"Skipping {last}: the checkpoint is incomplete" in caplog.text
    assert rest.batches == whole.batches[6:]
    assert torch.equal(parameters(rest.model), parameters(whole.model))


def test_without_a_complete_checkpoint_there_is_nothing_to_resume_from(tmp_path):
    (tmp_path / "checkpoint-3").mkdir()
    assert last_checkpoint(tmp_path) is None
    with pytest.raises(ValueError, match="has no complete checkpoint"):
        make_trainer(tmp_path).train(resume_from_checkpoint=True)


def test_a_checkpoint_that_is_written_again_is_incomplete_until_it_is_done(tmp_path, monkeypatch):
    options = {"max_steps": 5, "save_strategy": "steps", "save_steps": 5}
    make_trainer(tmp_path, **options).train()
    killed = make_trainer(tmp_path, **options)
    monkeypatch.setattr(killed, "save_model", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        killed.train()
    assert last_checkpoint(tmp_path) is None


def test_the_state_in_a_checkpoint_is_read_without_pickle(tmp_path):
    trainer = make_trainer(tmp_path, max_steps=5, save_strategy="steps", save_steps=5)
    trainer.train()
    from safetensors.torch import load_file

    folder = tmp_path / "checkpoint-5"
    torch.testing.assert_close(load_file(folder / OBJECTIVE_FILE)["log_weights"].exp(), trainer.weights[-1])
    assert json.loads((folder / SAMPLER_FILE).read_text())["position"] == 5


def test_a_checkpoint_that_does_not_belong_here_is_refused(tmp_path):
    make_trainer(tmp_path, max_steps=5, save_strategy="steps", save_steps=5).train()
    folder = tmp_path / "checkpoint-5"
    with pytest.raises(ValueError, match="gradient_accumulation_steps"):
        make_trainer(tmp_path, gradient_accumulation_steps=2).train(resume_from_checkpoint=True)
    with pytest.raises(ValueError, match="ignore_data_skip"):
        make_trainer(tmp_path, ignore_data_skip=True).train(resume_from_checkpoint=True)
    with pytest.raises(ValueError, match="seed: 0 → 1"):
        make_trainer(tmp_path, sampler=toy.Toy().sampler(seed=1)).train(resume_from_checkpoint=True)
    (folder / OBJECTIVE_FILE).unlink()
    with pytest.raises(ValueError, match=f"has no {OBJECTIVE_FILE}"):
        make_trainer(tmp_path).train(resume_from_checkpoint=str(folder))


def test_a_new_model_begins_with_new_weights(tmp_path):
    corpus = toy.Toy()
    trainer = ToyTrainer(
        None,
        make_arguments(tmp_path, max_steps=6),
        model_init=lambda: ToyModel(),
        data_collator=collate,
        train_dataset=Items(corpus),
        objective=make_objective(),
        batch_sampler=corpus.sampler(),
        group_column="language",
    )
    trainer.train()
    trainer.train()
    assert trainer.batches[:6] == trainer.batches[6:]
    assert torch.equal(torch.stack(trainer.weights[:6]), torch.stack(trainer.weights[6:]))


# ---- error-weighted training


def adaptive_trainer(folder, signal="loss_per_character", **options):
    criterion = toy.make_error_weighted(signal=signal)
    trainer = {"objective": criterion} | ({"compute_metrics": ErrorRates(decode)} if signal == "error_rate" else {})
    return make_trainer(folder, sampler=toy.Toy().adaptive_sampler(criterion), trainer=trainer, **options)


def test_adaptive_batches_and_error_weights_are_those_of_the_plain_loop(tmp_path):
    trainer = adaptive_trainer(tmp_path)
    trainer.train()
    batches, weights = toy.adaptive_loop(toy.make_error_weighted())
    assert trainer.batches == batches
    torch.testing.assert_close(torch.stack(trainer.weights), weights, rtol=1e-5, atol=1e-7)
    toy.assert_shares_follow_weights(batches, weights)


def test_error_weights_follow_the_evaluations_of_the_plain_loop(tmp_path):
    dev = toy.Toy(num_utterances=31, seed=1)
    options = {"eval_dataset": Items(dev), "eval_strategy": "epoch", "num_train_epochs": 4}
    trainer = adaptive_trainer(tmp_path, "error_rate", **options)
    trainer.train()
    criterion = toy.make_error_weighted(signal="error_rate")

    def update(model):
        criterion.objective.update_error_rates(rates_by_hand(type("", (), {"layers": model}), dev))

    batches, weights = toy.adaptive_loop(criterion, num_epochs=4, after_epoch=update)
    assert trainer.batches == batches
    torch.testing.assert_close(torch.stack(trainer.weights), weights, rtol=1e-5, atol=1e-7)
    toy.assert_shares_follow_weights(batches, weights)
    before = trainer.objective.weights.clone()
    trainer.evaluate(Items(toy.Toy(num_utterances=9, seed=2)))  # not during training
    assert torch.equal(trainer.objective.weights, before)


@pytest.mark.parametrize(
    ("at", "options"),
    [
        (10, {}),
        (10, {"dataloader_num_workers": 2}),
        (7, {"gradient_accumulation_steps": 2}),
        (len(toy.Toy().sampler()) + 4, {"dataloader_num_workers": 2}),
        (70, {"signal": "error_rate", "eval_strategy": "steps", "eval_steps": 33, "num_train_epochs": 3}),
    ],
)
def test_adaptive_batches_resume_exactly_in_the_middle_of_a_round(tmp_path, at, options):
    options |= {"save_strategy": "steps", "save_steps": at, "dropout": 0.2}
    options |= {"eval_dataset": Items(toy.Toy(num_utterances=9, seed=1))}
    whole = adaptive_trainer(tmp_path, **options)
    whole.train()
    rest = adaptive_trainer(tmp_path, **options)
    rest.train(resume_from_checkpoint=str(tmp_path / f"checkpoint-{at}"))
    num_done = at * options.get("gradient_accumulation_steps", 1)
    assert rest.batches == whole.batches[num_done:]
    assert torch.equal(torch.stack(rest.weights), torch.stack(whole.weights[num_done:]))
    assert torch.equal(parameters(rest.model), parameters(whole.model))


def test_error_rates_that_would_never_arrive_are_rejected(tmp_path):
    evaluated = {"eval_dataset": Items(toy.Toy(9)), "eval_strategy": "epoch"}
    for options, missing in [
        ({}, "`eval_strategy` steps or epoch; one `eval_dataset`, not several. Add"),
        (evaluated | {"eval_dataset": {"a": Items(toy.Toy(9))}}, "one `eval_dataset`"),
        (evaluated | {"save_strategy": "steps"}, "the same `save_strategy`"),
    ]:
        with pytest.raises(ValueError, match=f"weights follow evaluations, which require {missing}"):
            adaptive_trainer(tmp_path, "error_rate", **options)
    objective = ctcdro.error_weighted(3, signal="error_rate")
    with pytest.raises(ValueError, match=r"require `compute_metrics=ErrorRates\(…\)`; an objective with `group_names`"):
        make_trainer(tmp_path, trainer={"objective": objective}, **evaluated)
    evaluated |= {"eval_dataset": Items(toy.Toy(num_utterances=1, seed=1))}
    with pytest.raises(ValueError, match="error rate of every group by name; plain, noisy missing"):
        adaptive_trainer(tmp_path, "error_rate", **evaluated).train()


def test_an_adaptive_sampler_with_another_objective_is_rejected(tmp_path):
    sampler = toy.Toy().adaptive_sampler(toy.make_error_weighted())
    with pytest.raises(ValueError, match="created with another objective"):
        make_trainer(tmp_path, sampler=sampler, trainer={"objective": toy.make_error_weighted()})


# ---- evaluation


def decode(labels):
    return "".join(LETTERS[label] for label in labels)


def rates_by_hand(model, corpus):
    """Error rates with each utterance alone, without padding."""
    records = []
    for number, spoken in enumerate(corpus):
        best = model.layers(spoken.frames).argmax(-1)
        hypothesis = [int(label) for label in torch.unique_consecutive(best) if label]
        language = toy.LANGUAGES[spoken.group]
        records.append(Prediction(str(number), language, decode(spoken.labels), None, decode(hypothesis)))
    return metrics.score(records).rates("cer")


def losses_by_hand(model, corpus):
    inputs = collate([Items(corpus, language=False)[number] for number in range(len(corpus))])
    log_probs = model(inputs["input_values"], None)["logits"].log_softmax(-1).transpose(0, 1)
    lengths = [(inputs[name] >= at_least).sum(-1) for name, at_least in (("attention_mask", 1), ("labels", 0))]
    return ctcdro.ctc_losses(log_probs, inputs["labels"].clamp(min=0), *lengths)


def test_the_worst_language_chooses_the_best_model_and_weights_stand_still(tmp_path):
    dev = toy.Toy(num_utterances=31, seed=1)
    trainer = make_trainer(
        tmp_path,
        num_train_epochs=8,
        eval_dataset=Items(dev),
        eval_strategy="epoch",
        save_strategy="epoch",
        load_best_model_at_end=True,
        metric_for_best_model="worst_cer",
        greater_is_better=False,
        trainer={"compute_metrics": ErrorRates(decode)},
    )
    trainer.train()
    torch.testing.assert_close(torch.stack(trainer.weights), toy.plain_loop(8), rtol=1e-5, atol=1e-7)
    scored = [line for line in trainer.state.log_history if "eval_worst_cer" in line]
    assert trainer.state.best_metric == min(line["eval_worst_cer"] for line in scored)
    assert scored[0]["eval_worst_cer"] > trainer.state.best_metric
    with torch.no_grad():
        expected, losses = rates_by_hand(trainer.model, dev), losses_by_hand(trainer.model, dev)
    found = trainer.evaluate()
    assert {name: found[f"eval_cer/{name}"] for name in expected} == pytest.approx(expected)
    assert found["eval_worst_cer"] == pytest.approx(max(expected.values()))
    assert found["eval_mean_cer"] == pytest.approx(np.mean(list(expected.values())))
    assert found["eval_loss"] == pytest.approx(losses.mean().item(), rel=1e-5)


def test_evaluation_without_groups_gives_the_plain_loss(tmp_path):
    dev = toy.Toy(num_utterances=10, seed=1)
    trainer = make_trainer(tmp_path, eval_dataset=Items(dev, language=False))
    with torch.no_grad():
        expected = losses_by_hand(trainer.model, dev).mean().item()
    assert trainer.evaluate()["eval_loss"] == pytest.approx(expected, rel=1e-5)
    trainer.compute_metrics = ErrorRates(decode)
    with pytest.raises(ValueError, match="needs 'language' in every item of `eval_dataset`"):
        trainer.evaluate()


def test_utterances_that_ctc_cannot_fit_are_counted_in_the_logs(tmp_path):
    corpus = toy.Toy()
    first = corpus.utterances[0]
    corpus.utterances[0] = toy.Spoken(first.frames, first.labels[:1].repeat(len(first.frames)), first.group)
    trainer = make_trainer(tmp_path, dataset=Items(corpus), sampler=corpus.sampler(exponent=1.0), num_train_epochs=1)
    trainer.train()
    assert trainer.state.log_history[-2]["skipped/clear"] == 1
    assert "skipped/noisy" not in trainer.state.log_history[-2]
    assert trainer.model.layers[0].weight.isfinite().all()


class BrokenAt(transformers.TrainerCallback):
    """Makes the parameters NaN before a step, as a model that diverges."""

    def __init__(self, step):
        self.step = step

    def on_step_begin(self, args, state, control, model=None, **_):
        if state.global_step == self.step:
            torch.nn.init.constant_(model.layers[0].weight, math.nan)


@pytest.mark.parametrize("is_filtered", [False, True], ids=["all losses logged", "the Trainer's filter"])
def test_a_model_that_diverges_is_never_the_best(tmp_path, is_filtered):
    trainer = make_trainer(
        tmp_path,
        max_steps=8,
        eval_dataset=Items(toy.Toy(num_utterances=9, seed=1)),
        eval_strategy="steps",
        eval_steps=2,
        save_strategy="steps",
        save_steps=2,
        load_best_model_at_end=True,
        metric_for_best_model="loss",
        greater_is_better=False,
        logging_nan_inf_filter=is_filtered,
        trainer={"callbacks": [BrokenAt(5)]},
    )
    trainer.train()
    lines = [line for line in trainer.state.log_history if "loss" in line]
    assert [math.isnan(line["loss"]) for line in lines] == [False] * 5 + [not is_filtered] * 3
    by_language = [value for line in lines[5:] for name, value in line.items() if name.startswith("loss/")]
    assert len(by_language) == 3
    assert all(math.isnan(value) for value in (*by_language, *(line["grad_norm"] for line in lines[5:])))
    losses = [line["eval_loss"] for line in trainer.state.log_history if "eval_loss" in line]
    assert [math.isnan(loss) for loss in losses] == [False] * 2 + [True] * 2
    assert trainer.state.best_model_checkpoint == str(tmp_path / "checkpoint-4")
    assert parameters(trainer.model).isfinite().all()


def test_the_plain_loss_of_each_language_is_logged(tmp_path):
    steps = len(toy.Toy().sampler(exponent=1.0))
    trainer = make_trainer(
        tmp_path,
        optimizer=lambda model: torch.optim.SGD(model.parameters(), lr=0.0),
        sampler=toy.Toy().sampler(exponent=1.0),
        max_steps=steps,
        logging_steps=steps,
    )
    trainer.train()
    with torch.no_grad():
        losses = losses_by_hand(trainer.model, toy.Toy())
    groups = torch.tensor(toy.Toy().groups)
    expected = {f"loss/{name}": losses[groups == group].mean().item() for group, name in enumerate(toy.LANGUAGES)}
    [found] = [line for line in trainer.state.log_history if "loss" in line]
    assert {name: found[name] for name in expected} == pytest.approx(expected, rel=1e-5)


def test_languages_that_training_lacks_are_evaluated_under_their_names(tmp_path):
    rows = make_rows(24)
    dev = Dataset.from_list([row | {"language": ["spa", "ces", "cmn"][number % 3]} for number, row in enumerate(rows)])
    trainer = model_trainer(
        tmp_path, CTC_MODELS["wav2vec2"](), collate_rows, rows, eval_dataset=dev, compute_metrics=of_letters()
    )
    found = trainer.evaluate()
    assert {name for name in found if "cer/" in name} == {"eval_cer/ces", "eval_cer/cmn", "eval_cer/spa"}
    alone = trainer.evaluate(dev.filter(lambda row: row["language"] == "spa"))
    assert alone["eval_worst_cer"] == found["eval_cer/spa"]
    heard = trainer.predict(dev.filter(lambda row: row["language"] == "ces")).metrics
    assert heard["test_worst_cer"] == found["eval_cer/ces"]
    trainer.compute_metrics = None  # then the group is not needed
    plain = model_trainer(tmp_path, trainer.model, collate_rows, rows, eval_dataset=dev.remove_columns("language"))
    assert trainer.evaluate()["eval_loss"] == pytest.approx(plain.evaluate()["eval_loss"])


def test_without_columns_languages_that_training_lacks_have_names_too(tmp_path):
    dev = Items(toy.Toy(num_utterances=9, seed=1))
    dev.language_of = {"noisy": "新しい"}
    trainer = make_trainer(tmp_path, eval_dataset=dev, trainer={"compute_metrics": ErrorRates(decode)})
    assert {name for name in trainer.evaluate() if "cer/" in name} == {
        "eval_cer/clear",
        "eval_cer/plain",
        "eval_cer/新しい",
    }


# ---- models of transformers

SIZE = {
    **{"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16, "vocab_size": 8},
    **{"hidden_dropout": 0.1, "attention_dropout": 0.0, "activation_dropout": 0.0, "feat_proj_dropout": 0.0},
    **{"final_dropout": 0.0, "layerdrop": 0.0, "mask_time_prob": 0.1, "mask_time_length": 2},
    **{"pad_token_id": 0, "ctc_loss_reduction": "sum"},
}
CONVOLUTIONS = {"conv_dim": [8, 8], "conv_kernel": [10, 4], "conv_stride": [5, 4], "num_conv_pos_embeddings": 4}
AUDIO = {**SIZE, **CONVOLUTIONS, "num_conv_pos_embedding_groups": 2, "feat_extract_norm": "layer"}
BERT = {**SIZE, "feature_projection_input_dim": 6, "conv_depthwise_kernel_size": 3, "conformer_conv_dropout": 0.0}
PARAKEET = {
    **{"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16},
    **{"num_mel_bins": 16, "subsampling_conv_channels": 4, "conv_kernel_size": 3},
}
CTC_MODELS = {
    "wav2vec2": lambda: transformers.Wav2Vec2ForCTC(transformers.Wav2Vec2Config(**AUDIO)),
    "wav2vec2, adapter": lambda: transformers.Wav2Vec2ForCTC(
        transformers.Wav2Vec2Config(**AUDIO, add_adapter=True, num_adapter_layers=1)
    ),
    "hubert": lambda: transformers.HubertForCTC(transformers.HubertConfig(**AUDIO)),
    "wavlm": lambda: transformers.WavLMForCTC(transformers.WavLMConfig(**AUDIO)),
    "data2vec-audio": lambda: transformers.Data2VecAudioForCTC(
        transformers.Data2VecAudioConfig(**SIZE | CONVOLUTIONS | {"num_conv_pos_embedding_groups": 2})
    ),
    "wav2vec2-bert": lambda: transformers.Wav2Vec2BertForCTC(transformers.Wav2Vec2BertConfig(**BERT)),
    "parakeet": lambda: transformers.ParakeetForCTC(
        transformers.ParakeetCTCConfig(vocab_size=8, pad_token_id=0, encoder_config=PARAKEET, ctc_loss_reduction="sum")
    ),
}
WIDTHS = {"wav2vec2-bert": 6, "parakeet": 16}
WHISPER = {
    **{"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16},
    **{"encoder_attention_heads": 2, "decoder_attention_heads": 2, "num_mel_bins": 6, "max_source_positions": 10},
    **{"vocab_size": 12, "max_target_positions": 12, "dropout": 0.1},
    **{"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1},
}


def make_rows(num_utterances, width=None):
    """Random audio of two languages, or random features, with columns that no model takes."""
    rng = np.random.default_rng(0)
    rows = []
    for number in range(num_utterances):
        length = int(rng.integers(200, 400))
        shape = (length,) if width is None else (length // 5, width)
        rows.append(
            {
                ("input_values" if width is None else "input_features"): rng.standard_normal(shape).astype(np.float32),
                "labels": rng.integers(1, 8, size=rng.integers(1, 5)).tolist(),
                "language": ["ces", "cmn"][number % 2],
                "speaker": f"speaker {number}",
                "duration": length / 100,
            }
        )
    return Dataset.from_list(rows)


def collate_rows(rows):
    name = next(name for name in rows[0] if name.startswith("input"))
    audio = [torch.tensor(row[name]) for row in rows]
    assert set(rows[0]) == {name, "labels"}  # unused columns are removed, and the language is kept from collators
    return {
        name: pad_sequence(audio, batch_first=True),
        "attention_mask": pad_sequence([torch.ones(len(one), dtype=torch.int64) for one in audio], batch_first=True),
        "labels": pad_sequence([torch.tensor(row["labels"]) for row in rows], batch_first=True, padding_value=-100),
    }


def collate_whisper(rows):
    batch = collate_rows(rows)
    features = torch.nn.functional.pad(batch["input_features"], (0, 0, 0, 20))[:, :20].transpose(1, 2)
    return {"input_features": features, "labels": batch["labels"]}


def model_trainer(
    folder, model, collator, rows, kind=RobustTrainer, arguments=transformers.TrainingArguments, **options
):
    metrics_of = {"compute_metrics": options.pop("compute_metrics", None)}
    metrics_of |= {"eval_dataset": options.pop("eval_dataset", rows)}
    groups = [["ces", "cmn"].index(language) for language in rows["language"]]
    return kind(
        model,
        make_arguments(folder, arguments, **options),
        data_collator=collator,
        train_dataset=rows,
        objective=ctcdro.ctc_dro(2, step_size=1e-2, smoothing=0.5, group_names=["ces", "cmn"]),
        batch_sampler=ctcdro.LengthMatchedBatchSampler(rows["duration"], groups, batch_duration=12.0),
        group_column="language",
        **metrics_of,
    )


@pytest.mark.parametrize(
    ("name", "has_mask"), [*((name, True) for name in CTC_MODELS), ("wav2vec2", False), ("hubert", False)]
)
def test_losses_of_utterances_sum_to_the_loss_of_the_model(tmp_path, name, has_mask):
    torch.manual_seed(0)
    model = CTC_MODELS[name]().eval()
    rows = make_rows(8, WIDTHS.get(name))
    trainer = model_trainer(tmp_path, model, collate_rows, rows)
    batch = collate_rows(list(rows.remove_columns(["language", "speaker", "duration"])))
    if not has_mask:
        del batch["attention_mask"]
    with torch.no_grad():
        outputs = model(**batch)
        losses = trainer.utterance_losses(outputs, batch)
    assert losses.shape == (8,)
    torch.testing.assert_close(losses.sum(), outputs.loss)
    assert trainer.evaluate()["eval_loss"] > 0


@pytest.mark.parametrize("name", ["wav2vec2", "wav2vec2-bert"])
def test_ctc_models_train_with_columns_they_do_not_take(tmp_path, name):
    trainer = model_trainer(tmp_path, CTC_MODELS[name](), collate_rows, make_rows(24, WIDTHS.get(name)))
    before = parameters(trainer.model)
    trainer.train()
    assert not torch.equal(before, parameters(trainer.model))
    assert trainer.state.log_history[0].keys() >= {"weight/ces", "weight/cmn"}
    assert trainer.objective.weights[0] != 0.5


@pytest.mark.bfloat16
def test_mixed_precision_and_gradient_checkpointing_take_steps(tmp_path):
    options = {"max_steps": 2, "bf16": True, "gradient_checkpointing": True}
    trainer = model_trainer(tmp_path, CTC_MODELS["wav2vec2"](), collate_rows, make_rows(24), **options)
    trainer.train()
    assert trainer.objective.weights.dtype == torch.float32
    assert trainer.objective.weights[0] != 0.5


def lora_trainer(folder):
    torch.manual_seed(0)
    model = peft.get_peft_model(CTC_MODELS["wav2vec2"](), peft.LoraConfig(target_modules=["q_proj", "v_proj"]))
    options = {"max_steps": 6, "save_strategy": "steps", "save_steps": 3}
    return model_trainer(folder, model, collate_rows, make_rows(24), compute_metrics=of_letters(), **options)


def test_adapters_train_and_resume_exactly(tmp_path):
    whole, rest = lora_trainer(tmp_path), lora_trainer(tmp_path)
    whole.train()
    rest.train(resume_from_checkpoint=str(tmp_path / "checkpoint-3"))
    assert torch.equal(parameters(rest.model), parameters(whole.model))
    assert torch.equal(rest.objective.weights, whole.objective.weights)
    assert rest.evaluate()["eval_worst_cer"] > 0


def of_letters():
    return ErrorRates(lambda labels: "".join(chr(96 + label) for label in labels if label > 2))


def whisper_trainer(folder, **options):
    torch.manual_seed(0)
    model = transformers.WhisperForConditionalGeneration(transformers.WhisperConfig(**WHISPER))
    model.generation_config.max_length = 12
    kinds = {"kind": RobustSeq2SeqTrainer, "arguments": transformers.Seq2SeqTrainingArguments}
    return model_trainer(folder, model, collate_whisper, make_rows(25, 6), **kinds, **options)


def test_losses_of_whisper_are_sums_over_tokens(tmp_path):
    trainer = whisper_trainer(tmp_path)
    rows = make_rows(8, 6).remove_columns(["language", "speaker", "duration"])
    batch = collate_whisper(list(rows))
    model = trainer.model.eval()
    with torch.no_grad():
        losses = trainer.utterance_losses(model(**batch), batch)
        alone = [model(**{key: value[number : number + 1] for key, value in batch.items()}) for number in range(8)]
    num_tokens = (batch["labels"] >= 0).sum(-1)
    torch.testing.assert_close(losses, torch.stack([one.loss for one in alone]) * num_tokens)


def test_whisper_logs_weights_and_resumes_exactly(tmp_path):
    options = {"max_steps": 9, "save_strategy": "steps", "save_steps": 4, "gradient_accumulation_steps": 2}
    whole = whisper_trainer(tmp_path, **options)
    whole.train()
    rest = whisper_trainer(tmp_path, **options)
    rest.train(resume_from_checkpoint=str(tmp_path / "checkpoint-4"))
    logs = [[line["weight/ces"] for line in one.state.log_history if "loss" in line] for one in (whole, rest)]
    assert len(set(logs[0])) > 4
    assert logs[0] == logs[1]
    assert torch.equal(parameters(rest.model), parameters(whole.model))


def test_whisper_is_scored_by_what_it_generates(tmp_path):
    rates = of_letters()
    found = whisper_trainer(tmp_path, predict_with_generate=True, compute_metrics=rates).evaluate()
    assert found["eval_worst_cer"] == max(found["eval_cer/ces"], found["eval_cer/cmn"])
    with pytest.raises(ValueError, match="predict_with_generate=True"):
        whisper_trainer(tmp_path, compute_metrics=rates)


# ---- two processes


def run_as_one_of_two(folder):
    """What each of two processes does; `torchrun` starts them."""
    options = {"save_strategy": "steps", "save_steps": 4, "num_train_epochs": 2, "dropout": 0.2}
    dev = Items(toy.Toy(num_utterances=31, seed=1))
    rates = {"compute_metrics": ErrorRates(decode)}
    whole = make_trainer(folder / "run", sampler=toy.Toy().sampler(exponent=1.0), **options)
    whole.train()
    rest = make_trainer(folder / "run", sampler=toy.Toy().sampler(exponent=1.0), **options)
    rest.train(resume_from_checkpoint=str(folder / "run" / "checkpoint-4"))
    plain = make_trainer(folder / "plain", optimizer=plain_descent, num_train_epochs=1, eval_dataset=dev, trainer=rates)
    scores = plain.evaluate()
    plain.train()
    error_weighted = adaptive_trainer(folder / "error_weighted")
    error_weighted.train()
    options = {"predict_with_generate": True, "max_steps": 2, "compute_metrics": of_letters()}
    whisper = whisper_trainer(folder / "whisper", **options)
    heard = whisper.evaluate()
    whisper.train()
    with pytest.raises(ValueError, match=r"created for \(rank, world size\) \(0, 1\)"):
        make_trainer(folder, sampler=toy.Toy().sampler(rank=0, world_size=1)).train()
    found = {
        **{"whole": whole.batches, "rest": rest.batches, "reads": rest.train_dataset.reads, "plain": plain.batches},
        **{"weights": torch.stack(whole.weights), "rest_weights": torch.stack(rest.weights)},
        **{"parameters": parameters(whole.model), "rest_parameters": parameters(rest.model)},
        **{"plain_weights": torch.stack(plain.weights), "plain_parameters": parameters(plain.model)},
        **{"scores": {name: value for name, value in scores.items() if "cer" in name}},
        **{"heard": {name: value for name, value in heard.items() if "cer" in name}},
        **{"whisper_weights": whisper.objective.weights, "error_weights": torch.stack(error_weighted.weights)},
        "error_parameters": parameters(error_weighted.model),
    }
    torch.save(found, folder / f"{os.environ['RANK']}.pt")


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("two")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", __file__]
    done = subprocess.run([*command, str(folder)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-5000:]
    ranks = [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(2)]
    return [one | {"checkpoint": str(folder / "run" / "checkpoint-4")} for one in ranks]


def test_two_processes_share_the_batches_of_one_and_lose_none(two_processes):
    sampler = toy.Toy().sampler(exponent=1.0)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        planned = [list(batch) for batch in sampler]
        num_turns = -(-len(planned) // 2)
        ours = [one["whole"][epoch * num_turns : (epoch + 1) * num_turns] for one in two_processes]
        in_turns = [batch for turn in zip(*ours, strict=True) for batch in turn]
        assert in_turns[: len(planned)] == planned
        assert in_turns[len(planned) :] == planned[: len(in_turns) - len(planned)]  # fills the last round
        assert {index for batch in planned for index in batch} == set(range(len(toy.Toy())))


def test_two_processes_have_the_same_weights_and_the_same_model(two_processes):
    first, second = two_processes
    for name in ("weights", "parameters", "plain_weights", "plain_parameters", "rest_parameters", "whisper_weights"):
        assert torch.equal(first[name], second[name]), name
    for name in ("error_weights", "error_parameters"):
        assert torch.equal(first[name], second[name]), name
    assert first["error_weights"][-1].std() > 0.01
    assert first["scores"] == second["scores"]


def test_two_processes_resume_exactly_without_reading_what_is_done(two_processes):
    for one in two_processes:
        assert one["rest"] == one["whole"][4:]
        assert one["reads"] == [index for batch in one["rest"] for index in batch]
        assert torch.equal(one["rest_weights"], one["weights"][4:])
        assert torch.equal(one["rest_parameters"], one["parameters"])


def test_one_process_resumes_where_two_stopped_if_it_accumulates_two_batches(two_processes, tmp_path):
    options = {"num_train_epochs": 1, "gradient_accumulation_steps": 2}
    rest = make_trainer(tmp_path, sampler=toy.Toy().sampler(exponent=1.0), **options)
    rest.train(resume_from_checkpoint=two_processes[0]["checkpoint"])
    assert rest.batches == [list(batch) for batch in toy.Toy().sampler(exponent=1.0)][8:]
    with pytest.raises(ValueError, match=r"was written after 8 batches of epoch 0, .* at batch 4 of epoch 0"):
        make_trainer(tmp_path, sampler=toy.Toy().sampler(exponent=1.0)).train(two_processes[0]["checkpoint"])


def test_two_processes_do_what_one_does_that_takes_two_batches_at_a_time(two_processes):
    """Sums of both batches join what waits, then the weights move, then both count with the new ones."""
    corpus, model, num_groups = toy.Toy(), toy.make_model(), len(toy.LANGUAGES)
    optimizer = plain_descent(model)
    weights, waiting, seen = torch.full((num_groups,), 1 / num_groups), [[] for _ in range(num_groups)], []
    for numbers in zip(two_processes[0]["plain"], two_processes[1]["plain"], strict=True):
        sums = []
        for batch in (toy.collate([corpus[index] for index in own]) for own in numbers):
            log_probs = model(batch.frames).log_softmax(-1).transpose(0, 1)
            losses = ctcdro.ctc_losses(log_probs, batch.labels, batch.num_frames, batch.num_labels)
            sums.append((int(batch.groups[0]), losses.sum()))
            waiting[sums[-1][0]].append(losses.sum().detach())
        if all(waiting):
            means = torch.stack([torch.stack(own).mean() for own in waiting])
            weights = ctcdro.smoothed_update(weights, means, step_size=toy.STEP_SIZE, smoothing=toy.SMOOTHING)
            waiting = [[] for _ in range(num_groups)]
        (sum(num_groups * weights[group] * total for group, total in sums) / 2).backward()
        optimizer.step()
        optimizer.zero_grad()
        seen.append(weights)
    torch.testing.assert_close(two_processes[0]["plain_weights"], torch.stack(seen), rtol=1e-5, atol=1e-7)
    torch.testing.assert_close(two_processes[0]["plain_parameters"], parameters(model), rtol=1e-5, atol=1e-6)


def test_two_processes_score_as_one(two_processes, tmp_path):
    dev = toy.Toy(num_utterances=31, seed=1)  # an odd number: one utterance is repeated, and must not count twice
    alone = make_trainer(tmp_path, eval_dataset=Items(dev), trainer={"compute_metrics": ErrorRates(decode)}).evaluate()
    scores = two_processes[0]["scores"]
    assert {name: alone[name] for name in scores} == pytest.approx(scores, rel=1e-5)
    alone = whisper_trainer(tmp_path, predict_with_generate=True, compute_metrics=of_letters()).evaluate()
    assert {name: alone[name] for name in two_processes[0]["heard"]} == pytest.approx(two_processes[0]["heard"])


# ---- rejected arguments


def test_groups_may_be_numbers(tmp_path):
    rows = make_rows(24)
    rows = rows.map(lambda row: {"group": int(row["language"] == "cmn")})
    trainer = RobustTrainer(
        CTC_MODELS["wav2vec2"](),
        make_arguments(tmp_path, max_steps=2),
        data_collator=collate_rows,
        train_dataset=rows,
        objective=ctcdro.ctc_dro(2, step_size=1e-2, smoothing=0.5),
        batch_sampler=ctcdro.LengthMatchedBatchSampler(rows["duration"], rows["group"], batch_duration=12.0),
        group_column="group",
    )
    trainer.train()
    assert trainer.state.log_history[-2].keys() >= {"weight/0", "weight/1"}


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("train_sampling_strategy", "group_by_length"),
        ("dataloader_drop_last", True),
        ("auto_find_batch_size", True),
        ("label_smoothing_factor", 0.1),
        ("enable_jit_checkpoint", True),
    ],
)
def test_settings_that_cannot_go_with_the_sampler_or_the_objective_are_refused(tmp_path, setting, value):
    with pytest.raises(ValueError, match=f"`{setting}` must be .*; got {value!r}"):
        make_trainer(tmp_path, **{setting: value})


def test_a_loss_function_in_addition_to_the_objective_is_rejected(tmp_path):
    with pytest.raises(ValueError, match="`compute_loss_func` must be None"):
        make_trainer(tmp_path, trainer={"compute_loss_func": print})


def test_groups_that_are_missing_or_unknown_are_named(tmp_path):
    with pytest.raises(ValueError, match="no 'language' in the batch"):
        make_trainer(tmp_path, dataset=Items(toy.Toy(), language=False)).train()
    names = {"objective": ctcdro.erm(3, group_names=["clear", "plain", "other"])}
    with pytest.raises(ValueError, match=r"clear, plain, other.*got 'noisy'"):
        make_trainer(tmp_path, trainer=names).train()
    with pytest.raises(ValueError, match=r"must hold one of 0, 1, 2; got '\w+'\. Names are those in `group_names`"):
        make_trainer(tmp_path, trainer={"objective": ctcdro.erm(3)}).train()


def test_a_sampler_of_other_data_is_refused(tmp_path):
    with pytest.raises(ValueError, match="created for 30 utterances, but `train_dataset` has 240"):
        make_trainer(tmp_path, sampler=toy.Toy(num_utterances=30).sampler())
    with pytest.raises(ValueError, match="`objective` has 4 groups, but `batch_sampler` has 3"):
        make_trainer(tmp_path, trainer={"objective": ctcdro.erm(4)})
    with pytest.raises(TypeError, match=r"has no len\(\)"):
        make_trainer(tmp_path, dataset=Dataset.from_dict({"a": [1]}).to_iterable_dataset(), max_steps=1)
    with pytest.raises(ValueError, match=r"created for \(rank, world size\) \(1, 2\), but this process is \(0, 1\)"):
        make_trainer(tmp_path, sampler=toy.Toy().sampler(rank=1, world_size=2)).train()


def test_a_model_without_a_number_of_frames_is_rejected(tmp_path):
    trainer = make_trainer(tmp_path)
    with pytest.raises(ValueError, match="Override `num_frames`"):
        RobustTrainer.num_frames(trainer, {})


def test_a_label_beyond_the_vocabulary_is_refused_as_by_the_model(tmp_path):
    rows = make_rows(24)
    rows = Dataset.from_list([row | {"labels": [*row["labels"], 8]} for row in rows])
    model = CTC_MODELS["wav2vec2"]()
    with pytest.raises(ValueError, match="vocab_size: 8"):
        model(**collate_rows(list(rows.remove_columns(["language", "speaker", "duration"]))))
    trainer = model_trainer(tmp_path, model, collate_rows, rows, max_steps=1)
    for run in (trainer.train, trainer.evaluate):
        with pytest.raises(ValueError, match=r"has label 8, but `log_probs` has 8 labels.*tokenizer"):
            run()


def test_a_dataset_shuffled_after_the_sampler_was_made_is_refused(tmp_path):
    rows = make_rows(24)
    groups = [["ces", "cmn"].index(language) for language in rows["language"]]
    parts = {
        "objective": ctcdro.ctc_dro(2, step_size=1e-2, smoothing=0.5, group_names=["ces", "cmn"]),
        "batch_sampler": ctcdro.LengthMatchedBatchSampler(rows["duration"], groups, batch_duration=12.0),
    }
    for shuffled in (rows.shuffle(seed=3), rows.shuffle(seed=3).with_transform(dict), rows.sort("language")):
        with pytest.raises(ValueError, match="shuffled, filtered or sorted after the sampler was created"):
            RobustTrainer(CTC_MODELS["wav2vec2"](), make_arguments(tmp_path), train_dataset=shuffled, **parts)
    renamed = rows.map(lambda row: {"language": {"ces": 1, "cmn": 0}[row["language"]]})
    RobustTrainer(CTC_MODELS["wav2vec2"](), make_arguments(tmp_path), train_dataset=renamed, **parts)
    merged = rows.map(lambda row: {"language": "ces"})
    with pytest.raises(ValueError, match="must match one to one; found 'ces' with group 0, 'ces' with group 1"):
        RobustTrainer(CTC_MODELS["wav2vec2"](), make_arguments(tmp_path), train_dataset=merged, **parts)


def test_a_batch_of_several_languages_is_refused_where_the_sampler_makes_batches_of_one(tmp_path):
    corpus = toy.Toy()
    sampler = corpus.sampler()
    corpus.utterances.sort(key=lambda one: one.duration)  # a dataset without columns can be checked only batch by batch
    with pytest.raises(
        ValueError, match=r"creates batches of one group, but this batch contains \w+, .* after the sampler"
    ):
        make_trainer(tmp_path, dataset=Items(corpus), sampler=sampler).train()


def test_a_criterion_is_accepted_as_the_objective(tmp_path):
    trainer = make_trainer(tmp_path, max_steps=6, trainer={"objective": toy.make_criterion()})
    trainer.train()
    torch.testing.assert_close(torch.stack(trainer.weights), toy.plain_loop(1)[:6], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(("max_grad_norm", "warns"), [(1.0, True), (0.0, False), (1000.0, False)])
def test_clipping_that_would_undo_the_weights_is_warned_of(max_grad_norm, warns, tmp_path, caplog):
    make_trainer(tmp_path, max_grad_norm=max_grad_norm)
    assert ("`max_grad_norm` is 1, but" in caplog.text) == warns


# ---- the examples


def test_examples_in_docstrings_hold():
    assert doctest.testmod(error_rates).failed == 0


@pytest.mark.parametrize("name", ["hf_trainer_ctc", "hf_trainer_whisper"])
def test_examples_change_fewer_than_ten_lines(name):
    lines = (EXAMPLES / f"{name}.py").read_text().splitlines()
    assert 0 < sum(line.endswith("# ctcdro") for line in lines) < 10
    assert all(line.endswith("# ctcdro") for line in lines if "ctcdro." in line)


def test_the_ctc_example_gives_the_noisy_language_the_most_weight_and_resumes(tmp_path):
    main = runpy.run_path(str(EXAMPLES / "hf_trainer_ctc.py"))["main"]
    trainer = main(str(tmp_path))
    clear, plain, noisy = trainer.objective.weights.tolist()
    assert noisy > plain > clear
    assert trainer.state.best_metric < 0.9
    longer = main(str(tmp_path), num_train_epochs=9)
    assert longer.state.global_step == trainer.state.global_step * 9 // 8


def test_the_whisper_example_gives_the_language_of_many_letters_the_most_weight(tmp_path):
    trainer = runpy.run_path(str(EXAMPLES / "hf_trainer_whisper.py"))["main"](str(tmp_path), num_train_epochs=2)
    few, some, many = trainer.objective.weights.tolist()
    assert many > some > few


if __name__ == "__main__":
    run_as_one_of_two(Path(sys.argv[1]))
