"""Wrong configurations: each problem is one line with the path of its key and the remedy; all are listed at once."""

import pytest
from cases import case

from ctcdro.runs.config import parse_config, read_config
from ctcdro.sweeps.config import parse_sweep


def run(**sections):
    return {"dataset": "data", **sections}


MISTAKES = {
    "no dataset": ({}, "dataset: missing. Folder with train.jsonl and dev.jsonl, such as `ctcdro prepare` writes."),
    "a dataset that is a number": ({"dataset": 3}, "dataset: must be a path; got 3."),
    "a misspelled key": (run(sed=1), "sed: unknown key. Did you mean seed?"),
    "a misspelled section": (run(optimiser={}), "optimiser: unknown key. Did you mean optimizer?"),
    "a misspelled key of a section": (
        run(model={"lora": {"rnk": 1}}),
        "model.lora.rnk: unknown key. Did you mean model.lora.rank?",
    ),
    "a key without its section": (run(lr=1e-3), "lr: unknown key. Did you mean optimizer.learning_rate?"),
    "a key in another section": (
        run(training={"num_workers": 4}),
        "training.num_workers: unknown key. Did you mean data.num_workers?",
    ),
    "the name of another toolkit": (
        run(optimizer={"gradient_accumulation_steps": 4}),
        "optimizer.gradient_accumulation_steps: unknown key. Did you mean optimizer.batches_per_step?",
    ),
    "epochs": (run(training={"epochs": 40}), "training.epochs: unknown key. Did you mean training.num_batches?"),
    "an option of the command": (run(device="cuda"), "device: unknown key. Did you mean the option --device?"),
    "an unknown section": (
        run(batches={"size": 4}),
        "batches: unknown key. The keys are dataset, seed, label, model, objective, data, sampling, optimizer, "
        "training.",
    ),
    "a key like no other": (
        run(data={"zzz": 1}),
        "data.zzz: unknown key. The keys are group_by, on_bad_audio, num_workers, speed_perturbation, "
        "edge_silence_seconds, noise_snr_db.",
    ),
    "a value instead of a section": (
        run(objective="erm"),
        "objective: must be a section with the keys name, step_size, smoothing, reduction, signal, warmup_batches, "
        "power, baseline, max_relative_loss, weights, loss_normalization; got 'erm'.",
    ),
    "a signal of another objective": (
        run(objective={"name": "ctc-dro", "signal": "error_rate"}),
        "objective.signal: error_rate is not a signal of ctc-dro; use loss_per_second or loss_per_character.",
    ),
    "a guard of groups that are not languages": (
        run(objective={"name": "error-weighted", "baseline": "runs/erm"}, data={"group_by": ["lang", "corpus"]}),
        "objective.baseline: needs groups that are languages; remove it, or `data.group_by`, which is lang, corpus.",
    ),
    "static weights without weights": (
        run(objective={"name": "static"}),
        "objective.weights: static needs the weight of each group, such as {ces: 1, cmn: 2.5}; add them.",
    ),
    "a static weight of zero": (
        run(objective={"name": "static", "weights": {"ces": 1, "cmn": 0}}),
        "objective.weights.cmn: must be greater than 0; got 0.",
    ),
    "shares of batches with group DRO": (
        run(objective={"name": "group-dro"}, sampling={"sampler": "adaptive"}),
        "sampling.sampler: adaptive does not work with group-dro; use length-matched or group-uniform.",
    ),
    "a learning rate of a frozen encoder": (
        run(model={"freeze_encoder": True}, optimizer={"encoder_learning_rate": 1e-5}),
        "optimizer.encoder_learning_rate: has no effect with `model.freeze_encoder`; remove one of them.",
    ),
    "an encoder from scratch that is frozen at first": (
        run(model={"encoder": "mel-small"}, optimizer={"freeze_encoder_batches": 10}),
        "optimizer.freeze_encoder_batches: mel-small is trained from scratch; remove it.",
    ),
    "an encoder that is frozen until the end": (
        run(optimizer={"freeze_encoder_batches": 20}, training={"num_batches": 32}),
        "optimizer.freeze_encoder_batches: 20 of 32 batches leave no step to train the encoder; lower it, or set "
        "`model.freeze_encoder`.",
    ),
    "masks in a frozen encoder": (
        run(model={"freeze_encoder": True, "head": "linear", "spec_augment": True}),
        "model.spec_augment: a linear head masks the input of the encoder, which is frozen; set it to false.",
    ),
    "augmentation of cached features": (
        run(model={"freeze_encoder": True, "feature_cache_dir": "features"}, data={"noise_snr_db": [0, 0]}),
        "data.noise_snr_db: cached features cannot be augmented; remove it, or `model.feature_cache_dir`.",
    ),
    "a range that is reversed": (
        run(data={"noise_snr_db": [40, 10]}),
        "data.noise_snr_db: the minimum comes first; got [40.0, 10.0].",
    ),
    "a speed in percent": (
        run(data={"speed_perturbation": [90]}),
        "data.speed_perturbation.0: must be at most 2; got 90.",
    ),
    "text for a number": (
        run(training={"num_batches": "many"}),
        "training.num_batches: must be a whole number; got 'many'.",
    ),
    "a fraction for a count": (run(seed=0.5), "seed: must be a whole number; got 0.5."),
    "text for a switch": (run(model={"freeze_encoder": "maybe"}), "model.freeze_encoder: must be true or false; got"),
    "not a number": (
        run(objective={"step_size": float("nan")}),
        "objective.step_size: must be a finite number; got nan.",
    ),
    "zero batches": (run(training={"num_batches": 0}), "training.num_batches: must be greater than 0; got 0."),
    "one checkpoint": (run(training={"keep_checkpoints": 1}), "training.keep_checkpoints: must be at least 2; got 1."),
    "a large exponent": (run(sampling={"exponent": 2}), "sampling.exponent: must be at most 1; got 2."),
    "one of two numbers": (
        run(optimizer={"betas": [0.9]}),
        "optimizer.betas.1: a value is missing at this place of the list; got [0.9].",
    ),
    "three of two numbers": (
        run(optimizer={"betas": [0.9, 0.98, 0.99]}),
        "optimizer.betas: must have 2 values; got [0.9, 0.98, 0.99].",
    ),
    "an unknown choice": (
        run(training={"precision": "fp16"}),
        "training.precision: must be 'fp32' or 'bf16'; got 'fp16'.",
    ),
    "an unknown objective": (
        run(objective={"name": "dro"}),
        "objective.name: must be one of erm, group-dro, ctc-dro-unsmoothed, ctc-dro, error-weighted, static; got "
        "'dro'.",
    ),
    "text for a list": (run(training={"trackers": "wandb"}), "training.trackers: must be a list; got 'wandb'."),
    "no groups": (run(data={"group_by": []}), "data.group_by: must not be empty; got []."),
    "a setting that the objective does not take": (
        run(objective={"name": "erm", "warmup_batches": 9}),
        "objective.warmup_batches: 9 has no effect with erm; remove it, or set `name` to ctc-dro-unsmoothed or "
        "ctc-dro.",
    ),
    "a key that the sampler does not use": (
        run(sampling={"sampler": "similar-length", "batch_duration": 20}),
        "sampling.batch_duration: 20.0 has no effect with sampler similar-length, which uses batch_size; remove it (or "
        "set it to its default, 50.0).",
    ),
    "a batch size for batches of equal duration": (
        run(sampling={"batch_size": 8}),
        "sampling.batch_size: 8 has no effect with sampler auto, which uses batch_duration, exponent, max_passes "
        "and chunk_size; remove it (or set it to its default, 4).",
    ),
    "a frozen encoder with adapters": (
        run(model={"freeze_encoder": True, "lora": {}}),
        "model.lora: adapters cannot be trained in a frozen encoder; remove `lora` or `freeze_encoder`.",
    ),
    "a cache of features that change": (
        run(model={"feature_cache_dir": "features"}),
        "model.feature_cache_dir: features change while the encoder is trained; add `freeze_encoder: true`.",
    ),
    "another head for mel-small": (
        run(model={"encoder": "mel-small", "head": "transformer"}),
        "model.head: mel-small has a linear head; remove `head: transformer`.",
    ),
    "too short for a step": (
        run(training={"num_batches": 8}),
        "training.num_batches: 8 batches are fewer than one optimizer step needs, 16; raise it, or lower "
        "`optimizer.batches_per_step`.",
    ),
    "weights that never change": (
        run(objective={"warmup_batches": 48_000}),
        "objective.warmup_batches: 48000 is not less than `training.num_batches`, 48000, so the group weights would "
        "never change; lower it.",
    ),
    "a sweep": ({"run": {"dataset": "data"}}, "this file describes a sweep; use it with `ctcdro sweep`."),
}


def test_a_mistake_is_answered_in_one_line_with_the_remedy():
    for mistake, (values, answer) in MISTAKES.items():
        with pytest.raises(ValueError, match=r"run\.yaml") as error:
            parse_config(values, source="run.yaml")
        assert len(str(error.value).splitlines()) == 1, mistake
        assert str(error.value).startswith(f"run.yaml: {answer}"), mistake


def test_keys_of_a_run_in_a_sweep_are_found_too():
    with pytest.raises(
        ValueError, match=r"^configuration: lr: unknown key\. Did you mean run\.optimizer\.learning_rate\?$"
    ):
        parse_sweep({"run": {"dataset": "data"}, "lr": 1e-3})


def test_all_problems_are_listed_at_once():
    values = {
        "seed": -1,
        "model": {"head": "big"},
        "training": {"epochs": 4},
        "sampling": {"batch_size": 8, "exponent": 3},
    }
    with pytest.raises(ValueError, match="configuration") as error:
        parse_config(values)
    listed = [line.split(": ")[1] for line in str(error.value).splitlines()]
    assert sorted(listed) == ["dataset", "model.head", "sampling.exponent", "seed", "training.epochs"]


def test_all_problems_of_a_section_are_listed_at_once():
    model = {"encoder": "mel-small", "head": "transformer", "lora": {}, "gradient_checkpointing": True}
    with pytest.raises(ValueError, match="configuration") as error:
        parse_config(run(model=model))
    listed = [line.split(": ")[1] for line in str(error.value).splitlines()]
    assert listed == ["model.head", "model.lora", "model.gradient_checkpointing"]


def test_overrides_written_wrongly_are_named():
    for override in ("seed", "=1", "seed.a=1", "model.head=[", "objective.name.x=1"):
        with case(override), pytest.raises(ValueError, match="--set"):
            parse_config(run(seed=1, objective={"name": "erm"}), [override])


def test_files_that_are_not_configurations_are_rejected(tmp_path):
    for text in ("- a\n- b\n", "a: [", "", "\x00", "!!python/object/apply:os.system ['true']"):
        with case(text):
            (tmp_path / "config.yaml").write_text(text)
            with pytest.raises(ValueError, match=r"config\.yaml: "):
                read_config(tmp_path / "config.yaml")


def test_aliases_are_rejected(tmp_path):
    (tmp_path / "config.yaml").write_text("dataset: &a [1]\nmodel: [*a, *a]\n")
    with pytest.raises(ValueError, match="aliases such as \\*name are not supported"):
        read_config(tmp_path / "config.yaml")
