"""ESPnet2's ASR task with the loss and the batches of this package, trained for real on the toy corpus."""

import os
import re
import subprocess
import sys
import tempfile
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
import yaml
from torch.nn.utils.rnn import pad_sequence

# Imported by ESPnet, g2p_en downloads models that nothing here uses, unless it finds them: it is shown empty ones.
if "NLTK_DATA" not in os.environ:
    NLTK_DATA = tempfile.TemporaryDirectory(prefix="nltk")
    os.environ["NLTK_DATA"] = NLTK_DATA.name
    for needless in ("taggers/averaged_perceptron_tagger.zip", "corpora/cmudict.zip"):
        (Path(NLTK_DATA.name) / needless).parent.mkdir()
        zipfile.ZipFile(Path(NLTK_DATA.name) / needless, "w").close()

import toy
from espnet2.tasks.asr import ASRTask
from espnet2.train.dataset import ESPnetDataset
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import ctcdro
from ctcdro.integrations.espnet import CTCDROTask, read_corpus
from ctcdro.sampling.adaptive import make_sampler

EXAMPLE = Path(__file__).parents[2] / "examples" / "espnet_asr.py"
GROUPS = sorted(toy.LANGUAGES)  # their numbers in ESPnet are places in this list
TOKENS = ["<blank>", *(f"s{label}" for label in range(1, toy.NUM_LABELS)), "<unk>", "<sos/eos>"]
SEED = 7
CONFIG = {
    "input_size": toy.NUM_LABELS,
    "normalize": None,
    "encoder": "transformer",
    "encoder_conf": {
        "input_layer": "linear", "output_size": 16, "attention_heads": 2, "linear_units": 32, "num_blocks": 1,
        "dropout_rate": 0.0, "positional_dropout_rate": 0.0, "attention_dropout_rate": 0.0,
    },
    "decoder": "transformer",
    "decoder_conf": {
        "attention_heads": 2, "linear_units": 16, "num_blocks": 1,
        "dropout_rate": 0.0, "positional_dropout_rate": 0.0,
        "self_attention_dropout_rate": 0.0, "src_attention_dropout_rate": 0.0,
    },
    "model_conf": {"ctc_weight": 1.0},
    "ctc_conf": {"ctc_type": "ctcdro", "dro_step_size": toy.STEP_SIZE, "dro_smoothing": toy.SMOOTHING},
    "batch_type": "ctcdro",
    "batch_duration": toy.BATCH_DURATION,
    "batch_rate": toy.FRAMES_PER_SECOND,
    "optim": "adam",
    "optim_conf": {"lr": toy.LEARNING_RATE},
    "grad_clip": 1.0e9,
    "token_type": "word",
    "token_list": TOKENS,
    "seed": SEED,
    "max_epoch": 2,
    "num_workers": 0,
    "num_att_plot": 0,
    "use_matplotlib": False,
    "log_interval": 1,
    "keep_nbest_models": 2,
}  # fmt: skip


# Dropout draws from torch's generator, the masks of SpecAugment from torch's and numpy's.
DRAWS = {
    "encoder_conf": CONFIG["encoder_conf"] | {"dropout_rate": 0.1, "attention_dropout_rate": 0.1},
    "specaug": "specaug",
    "specaug_conf": {"time_warp_window": 2, "freq_mask_width_range": [0, 3], "time_mask_width_range": [0, 4]},
}  # fmt: skip


def write_folder(folder, corpus):
    """A data folder of ESPnet: features as npy files."""
    folder.mkdir(parents=True)
    lines = {name: [] for name in ("feats.scp", "text", "utt2category", "speech_shape", "text_shape")}
    for number, utterance in enumerate(corpus):
        id = f"{folder.name}{number:03}"
        np.save(folder / f"{id}.npy", utterance.frames.numpy())
        lines["feats.scp"].append(f"{id} {folder / id}.npy")
        lines["text"].append(f"{id} " + " ".join(TOKENS[label] for label in utterance.labels))
        lines["utt2category"].append(f"{id} {toy.LANGUAGES[utterance.group]}")
        lines["speech_shape"].append(f"{id} {len(utterance.frames)},{toy.NUM_LABELS}")
        lines["text_shape"].append(f"{id} {len(utterance.labels)}")
    for name, content in lines.items():
        (folder / name).write_text("\n".join(content) + "\n")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    write_folder(folder / "train", toy.Toy())
    write_folder(folder / "dev", toy.Toy(num_utterances=24, seed=1))
    (folder / "dev" / "utt2category").unlink()  # nobody asks for the groups of the development data
    return folder


def command(data, out, **changes):
    """The arguments of a run, which are CONFIG with some changes."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "train.yaml").write_text(yaml.safe_dump(CONFIG | changes))
    arguments = ["--config", out / "train.yaml", "--output_dir", out]
    for split, folder in (("train", "train"), ("valid", "dev")):
        for file, name, kind in (("feats.scp", "speech", "npy"), ("text", "text", "text")):
            arguments += [f"--{split}_data_path_and_name_and_type", f"{data / folder / file},{name},{kind}"]
        for shape in ("speech_shape", "text_shape"):
            arguments += [f"--{split}_shape_file", data / folder / shape]
    return [str(argument) for argument in arguments]


def run(data, out, stop_after=None, breaks_after=None, losses=None, **changes):
    """Trains. For each batch: its utterances, and the state of the objective after it.

    After `stop_after` batches it is interrupted; after `breaks_after` batches a parameter of the model becomes NaN. The
    loss of each batch is appended to `losses`.
    """
    batches = []

    def record(model, args, kwargs, output):
        if model.training:
            batches.append((kwargs["utt_id"], {name: value.clone() for name, value in objective_of(model).items()}))
            if losses is not None:
                losses.append(output[0].item())
            if len(batches) == stop_after:
                raise KeyboardInterrupt

    def break_model(model, args):
        if model.training and len(batches) == breaks_after:
            torch.nn.init.constant_(next(model.parameters()), torch.nan)

    class RecordedTask(CTCDROTask):
        @classmethod
        def build_model(cls, args):
            model = super().build_model(args)
            model.register_forward_hook(record, with_kwargs=True)
            model.register_forward_pre_hook(break_model)
            return model

    RecordedTask.main(cmd=command(data, out, **changes))
    return batches


def objective_of(model):
    state = model if isinstance(model, dict) else model.state_dict()
    return {name: value for name, value in state.items() if name.startswith("ctc.objective.")}


def weights_of(batches):
    """(batches, G)"""
    return torch.stack([state["ctc.objective.log_weights"].exp() for _, state in batches])


def ids_of(batches):
    return [list(ids) for ids, _ in batches]


def checkpoint(out):
    return torch.load(out / "checkpoint.pth", weights_only=False)


def assert_same(one, other):
    torch.testing.assert_close(one, other, rtol=0, atol=0)


def make_plain_model(**changes):
    """The model of a run, by ESPnet alone."""
    parser = ASRTask.get_parser()
    known = {action.dest for action in parser._actions}
    parser.set_defaults(**{name: value for name, value in (CONFIG | changes).items() if name in known})
    args = parser.parse_args([])
    args.ctc_conf = {}
    torch.manual_seed(SEED)
    return ASRTask.build_model(args)


def plan(epoch, objective=None):
    """The batches of an epoch, for all ranks together."""
    corpus = toy.Toy()
    groups = [GROUPS.index(toy.LANGUAGES[group]) for group in corpus.groups]
    sampler = make_sampler(corpus.durations, groups, objective, toy.BATCH_DURATION, seed=SEED)
    return [list(batch) for batch in sampler.plan(epoch)]


def plain_losses(model, numbers):
    """The CTC loss of each utterance of a batch, their groups, and the loss of the decoder."""
    corpus = toy.Toy()
    spoken = [corpus[number] for number in sorted(numbers, key=corpus.durations.__getitem__, reverse=True)]
    labels = pad_sequence([each.labels for each in spoken], batch_first=True, padding_value=-1)
    num_labels = torch.tensor([len(each.labels) for each in spoken])
    encoded, num_frames = model.encode(
        pad_sequence([each.frames for each in spoken], batch_first=True),
        torch.tensor([len(each.frames) for each in spoken]),
    )
    log_probs = model.ctc.ctc_lo(encoded).log_softmax(2).transpose(0, 1)
    losses = ctcdro.ctc_losses(log_probs, labels.clamp(min=0), num_frames, num_labels)
    groups = torch.tensor([GROUPS.index(toy.LANGUAGES[each.group]) for each in spoken])
    of_decoder = 0.0 if model.decoder is None else model._calc_att_loss(encoded, num_frames, labels, num_labels)[0]
    return losses, groups, of_decoder


def plain_loop(num_epochs=2, ctc_weight=1.0, num_language_tokens=0, objective=None, **options):
    """The weights after each batch, and the model, of a loop without ESPnet's trainer. ESPnet counts epochs from 1."""
    model = make_plain_model(model_conf={"ctc_weight": ctc_weight})
    if objective is None:
        objective = ctcdro.ctc_dro(len(GROUPS), step_size=toy.STEP_SIZE, smoothing=toy.SMOOTHING, **options)
    optimizer = torch.optim.Adam(model.parameters(), lr=toy.LEARNING_RATE)
    weights = []
    for epoch in range(1, num_epochs + 1):
        for numbers in plan(epoch, objective):
            losses, groups, of_decoder = plain_losses(model, numbers)
            num_characters = [len(toy.Toy()[number].labels) - num_language_tokens for number in numbers]
            loss = ctc_weight * objective(losses, groups, num_characters) + (1 - ctc_weight) * of_decoder
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            weights.append(objective.weights)
    return torch.stack(weights), model.state_dict()


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    return tmp_path_factory.mktemp("finished")


@pytest.fixture(scope="module")
def finished(data, out):
    """A run of two epochs, with validation."""
    return run(data, out)


def test_weights_and_model_are_those_of_the_plain_loop(finished, out):
    weights, parameters = plain_loop()
    torch.testing.assert_close(weights_of(finished), weights)
    trained = checkpoint(out)["model"]
    torch.testing.assert_close({name: trained[name] for name in parameters}, parameters)


def test_validation_and_plots_of_attention_move_nothing(data, tmp_path):
    batches = run(data, tmp_path, max_epoch=1, num_iters_per_epoch=4, num_att_plot=1, use_matplotlib=True)
    assert list((tmp_path / "att_ws").iterdir())
    assert (tmp_path / "images" / "weight_noisy.png").exists()
    assert_same(objective_of(checkpoint(tmp_path)["model"]), batches[-1][1])


def test_weights_are_in_the_reporter_and_in_tensorboard(finished, out):
    events = EventAccumulator(str(out / "tensorboard" / "train"), size_guidance={"scalars": 0}).Reload()
    for number, name in enumerate(GROUPS):
        by_step = {}
        for event in events.Scalars(f"weight_{name}"):
            by_step.setdefault(event.step, event.value)  # the mean of an epoch follows at its last step
        torch.testing.assert_close(
            torch.tensor([by_step[step] for step in sorted(by_step)]), weights_of(finished)[:, number]
        )
        means = weights_of(finished)[:, number].double().unflatten(0, (2, -1)).mean(1)
        reported = [checkpoint(out)["reporter"]["stats"][epoch]["train"][f"weight_{name}"] for epoch in (1, 2)]
        torch.testing.assert_close(torch.tensor(reported, dtype=torch.float64), means)


def test_hybrid_with_the_mean_of_the_authors_follows_the_plain_loop(data, tmp_path):
    batches = run(
        data,
        tmp_path,
        max_epoch=1,
        model_conf={"ctc_weight": 0.3},
        ctc_conf=CONFIG["ctc_conf"] | {"dro_reduction": "mean"},
    )
    weights, parameters = plain_loop(num_epochs=1, reduction="mean", ctc_weight=0.3)
    torch.testing.assert_close(weights_of(batches), weights, rtol=1e-4, atol=1e-6)
    trained = checkpoint(tmp_path)["model"]
    torch.testing.assert_close({name: trained[name] for name in parameters}, parameters, rtol=1e-3, atol=1e-4)


def test_weights_follow_the_loss_per_character_after_a_warmup(data, tmp_path):
    options = {"signal": "loss_per_character", "warmup_batches": 9, "num_language_tokens": 1}
    ctc_conf = CONFIG["ctc_conf"] | {f"dro_{name}": value for name, value in options.items()}
    weights = weights_of(run(data, tmp_path, max_epoch=1, ctc_conf=ctc_conf))
    expected, _ = plain_loop(num_epochs=1, **options)
    torch.testing.assert_close(weights, expected, rtol=1e-4, atol=1e-6)


ERROR_WEIGHTED = {"ctc_type": "ctcdro", "dro_method": "error-weighted"}


def test_error_weighted_training_has_the_weights_and_the_adaptive_batches_of_the_plain_loop(data, tmp_path):
    batches = run(data, tmp_path, max_epoch=2, ctc_conf=ERROR_WEIGHTED)
    objective = ctcdro.error_weighted(len(GROUPS))
    weights, _ = plain_loop(objective=objective)
    torch.testing.assert_close(weights_of(batches), weights, rtol=1e-4, atol=1e-6)
    shares = Counter(toy.LANGUAGES[toy.Toy().groups[int(ids[0].removeprefix("train"))]] for ids in ids_of(batches))
    assert len(set(shares.values())) > 1


def test_error_weighted_run_resumes_exactly_and_may_be_clipped(data, tmp_path, caplog):
    options = {"ctc_conf": ERROR_WEIGHTED, "num_iters_per_epoch": 10, "grad_clip": 5.0, **DRAWS}
    expected = run(data, tmp_path / "whole", max_epoch=4, **options)
    first = run(data, tmp_path / "parts", max_epoch=2, **options)
    rest = run(data, tmp_path / "parts", max_epoch=4, resume=True, **options)
    assert ids_of(first) + ids_of(rest) == ids_of(expected)
    assert_same(weights_of(rest), weights_of(expected)[20:])
    assert_same(checkpoint(tmp_path / "parts")["model"], checkpoint(tmp_path / "whole")["model"])
    assert "`grad_clip`" not in caplog.text  # clipping does not undo shares


def test_other_methods_are_chosen_by_name(data, tmp_path):
    ctc_conf = {"ctc_type": "ctcdro", "dro_method": "group-dro", "dro_step_size": 0.01}
    weights = weights_of(run(data, tmp_path, max_epoch=1, num_iters_per_epoch=2, ctc_conf=ctc_conf))
    assert (weights[0] > 1 / 3).sum() == 1  # an update after each batch


def test_validation_loss_is_that_of_espnet(finished, data, out):
    model, _ = ASRTask.build_model_from_file(out / "config.yaml", out / "2epoch.pth")
    robust, _ = CTCDROTask.build_model_from_file(out / "config.yaml", out / "2epoch.pth")
    frames, labels = toy.Toy()[0].frames[None], toy.Toy()[0].labels[None]
    batch = {"speech": frames, "speech_lengths": torch.tensor([frames.shape[1]])}
    batch |= {"text": labels, "text_lengths": torch.tensor([labels.shape[1]]), "utt_id": ["not in the corpus"]}
    assert_same(robust.eval()(**batch), model.eval()(**batch))


@pytest.mark.parametrize("file", ["2epoch.pth", "valid.loss.best.pth", "valid.loss.ave.pth"])
@pytest.mark.parametrize("task", [CTCDROTask, ASRTask])
def test_models_load_with_and_without_this_package(finished, out, task, file):
    model, _ = task.build_model_from_file(out / "config.yaml", out / file)
    saved = torch.load(out / file)
    for name, value in model.state_dict().items():
        assert_same(value, saved[name])


def test_average_of_models_keeps_the_names_of_the_groups(data, tmp_path):
    run(data, tmp_path, max_epoch=3, num_iters_per_epoch=1, keep_nbest_models=3)
    average = tmp_path / "valid.loss.ave_3best.pth"
    names = torch.load(average)["ctc.objective._extra_state"].to(torch.uint8)
    assert bytes(names.tolist()) == b'["clear", "noisy", "plain"]'
    CTCDROTask.build_model_from_file(tmp_path / "config.yaml", average)


class Loaded:
    """Records which training utterances are read from disk."""

    def __init__(self, monkeypatch):
        self.ids = []
        load = ESPnetDataset.__getitem__

        def record(dataset, id):
            if id.startswith("train"):
                self.ids.append(id)
            return load(dataset, id)

        monkeypatch.setattr(ESPnetDataset, "__getitem__", record)


@pytest.fixture(scope="module")
def in_pieces(data, tmp_path_factory):
    """Five epochs of ten batches, which begin and end in the middle of a pass over the data."""
    out = tmp_path_factory.mktemp("in_pieces")
    return out, run(data, out, num_iters_per_epoch=10, max_epoch=5, **DRAWS)


def test_pieces_are_the_plan_of_the_sampler_cut(in_pieces):
    _, batches = in_pieces
    expected = [sorted(f"train{number:03}" for number in batch) for epoch in (0, 1) for batch in plan(epoch)]
    assert [sorted(ids) for ids in ids_of(batches)] == expected[:50]


@pytest.mark.parametrize("stop_after", [None, 27], ids=["after an epoch", "in the middle of one"])
def test_stopped_and_resumed_run_continues_exactly(data, tmp_path, monkeypatch, in_pieces, stop_after):
    uninterrupted, expected = in_pieces
    if stop_after is None:
        first = run(data, tmp_path, num_iters_per_epoch=10, max_epoch=2, **DRAWS)
    else:  # goes back to the end of epoch 2
        with pytest.raises(KeyboardInterrupt):
            run(data, tmp_path, stop_after, num_iters_per_epoch=10, max_epoch=5, **DRAWS)
        first = expected[:20]
    loaded = Loaded(monkeypatch)
    rest = run(data, tmp_path, num_iters_per_epoch=10, max_epoch=5, resume=True, **DRAWS)
    assert ids_of(first) + ids_of(rest) == ids_of(expected)
    assert loaded.ids == [id for ids in ids_of(rest) for id in ids]
    assert_same(weights_of(rest), weights_of(expected)[20:])
    for part in ("model", "optimizers"):
        assert_same(checkpoint(tmp_path)[part], checkpoint(uninterrupted)[part])


def test_model_that_breaks_has_no_finite_loss_and_is_not_updated(data, tmp_path, caplog):
    losses = []
    run(data, tmp_path, breaks_after=5, losses=losses, max_epoch=1)
    assert np.isfinite(losses[:5]).all()
    assert np.isnan(losses[5:]).all()
    assert caplog.text.count("The grad norm is nan. Skipping updating the model.") == len(losses) - 5 > 0


def test_every_utterance_occurs_once_per_epoch_with_exponent_1(data, tmp_path):
    batches = run(data, tmp_path, max_epoch=1, batch_exponent=1.0)
    assert Counter(id for ids in ids_of(batches) for id in ids) == {f"train{number:03}": 1 for number in range(240)}


def test_batches_alone_are_the_baseline_of_the_paper(data, tmp_path):
    CTCDROTask.main(cmd=command(data, tmp_path, max_epoch=1, ctc_conf={}))
    assert not objective_of(checkpoint(tmp_path)["model"])


def test_loss_alone_takes_batches_of_any_type(data, tmp_path, caplog):
    batches = run(data, tmp_path, max_epoch=1, batch_type="sorted", batch_size=60)
    assert len(batches) == 4
    assert not torch.allclose(weights_of(batches)[-1], torch.full((3,), 1 / 3))
    assert "`batch_type` is sorted" in caplog.text


def test_raw_audio_makes_batches_of_seconds(tmp_path):
    for folder, num_utterances in (("train", 40), ("dev", 2)):
        (tmp_path / folder).mkdir()
        files = dict.fromkeys(("feats.scp", "text", "utt2category", "speech_shape", "text_shape"), "")
        for number in range(num_utterances):
            num_samples, words = 4000 + 200 * number, "s1 " * (500 if folder == "train" and number == 0 else 3)
            audio = tmp_path / folder / f"{number}.wav"
            soundfile.write(audio, 0.1 * np.random.default_rng(number).standard_normal(num_samples), 8000)
            files["feats.scp"] += f"{number} {audio}\n"
            files["text"] += f"{number} {words}\n"
            files["utt2category"] += f"{number} {'ab'[number % 2]}\n"
            files["speech_shape"] += f"{number} {num_samples}\n"
            files["text_shape"] += f"{number} {len(words.split())}\n"
        for name, content in files.items():
            (tmp_path / folder / name).write_text(content)
    cmd = command(
        tmp_path,
        tmp_path / "out",
        input_size=None,
        frontend_conf={"fs": "8k", "n_fft": 64, "hop_length": 32, "n_mels": 8},
        batch_rate=None,
        batch_duration=6.0,
        batch_exponent=1.0,
        max_epoch=1,
    )
    CTCDROTask.main(cmd=[argument.replace("npy", "sound") for argument in cmd])
    stats = checkpoint(tmp_path / "out")["reporter"]["stats"][1]["train"]
    assert stats["total_count"] == 3 + 3  # 19.5 s of one group, 20 s of the other
    # The first utterance has more words than frames.
    assert checkpoint(tmp_path / "out")["model"]["ctc.objective.num_skipped"].tolist() == [1, 0]


def train_rank(rank, data, out):
    """One of two processes."""
    torch.set_num_threads(1)
    distributed = {"dist_backend": "gloo", "dist_init_method": f"file://{out}/meeting_point"}
    batches = run(data, out / str(rank), max_epoch=1, dist_world_size=2, dist_rank=rank, **distributed)
    torch.save(batches, out / f"{rank}.pt")


def two_ranks_in_one_process():
    """The weights after each pair of batches, and the model: as Algorithm 2 has it, both batches before the update."""
    model = make_plain_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=toy.LEARNING_RATE)
    batches = plan(epoch=1)
    assert len(batches) % 2 == 1  # the last pair is filled up with the first batch
    weights, history = torch.full((len(GROUPS),), 1 / len(GROUPS)), []
    waiting = {group: [] for group in range(len(GROUPS))}
    for pair in zip(batches[::2], batches[1::2] + batches[:1], strict=True):
        sums = []
        for numbers in pair:
            losses, groups, _ = plain_losses(model, numbers)
            sums.append((losses.sum(), int(groups[0])))
            waiting[int(groups[0])].append(losses.sum().detach())
        if all(waiting.values()):
            means = torch.stack([torch.stack(waiting[group]).mean() for group in sorted(waiting)])
            weights = ctcdro.smoothed_update(weights, means, step_size=toy.STEP_SIZE, smoothing=toy.SMOOTHING)
            waiting = {group: [] for group in waiting}
        optimizer.zero_grad()
        torch.stack([len(GROUPS) * weights[group] * loss for loss, group in sums]).mean().backward()
        optimizer.step()
        history.append(weights)
    return torch.stack(history), model.state_dict()


def test_two_processes_agree_with_each_other_and_with_one(data, tmp_path):
    for rank in range(2):
        (tmp_path / str(rank)).mkdir()
    torch.multiprocessing.spawn(train_rank, (data, tmp_path), nprocs=2)
    ranks = [torch.load(tmp_path / f"{rank}.pt") for rank in range(2)]
    assert_same([state for _, state in ranks[0]], [state for _, state in ranks[1]])
    for rank, batches in enumerate(ranks):
        expected = (plan(epoch=1) + plan(epoch=1)[:1])[rank::2]
        assert [sorted(ids) for ids in ids_of(batches)] == [sorted(f"train{n:03}" for n in batch) for batch in expected]
    weights, parameters = two_ranks_in_one_process()
    torch.testing.assert_close(weights_of(ranks[0]), weights, rtol=1e-4, atol=1e-6)
    trained = checkpoint(tmp_path / "0")["model"]
    del parameters["encoder.encoders.0.self_attn.linear_k.bias"]  # its gradient is zero, up to rounding
    torch.testing.assert_close({name: trained[name] for name in parameters}, parameters, rtol=1e-3, atol=1e-4)


def test_corpus_has_durations_and_groups(data):
    corpus = read_corpus(data / "train" / "speech_shape", data / "train" / "utt2category", toy.FRAMES_PER_SECOND)
    assert corpus.groups.names == GROUPS
    assert [GROUPS[number] for number in corpus.groups.numbers] == [toy.LANGUAGES[group] for group in toy.Toy().groups]
    np.testing.assert_allclose(corpus.durations, toy.Toy().durations)


CTC = CONFIG["ctc_conf"]
MISUSES = {
    "shuffled again": ({"shuffle_within_batch": True}, "requires shuffle_within_batch: false"),
    "in chunks": ({"iterator_type": "chunk"}, "requires iterator_type: sequence"),
    "split": ({"multiple_iterator": True}, "requires multiple_iterator: false"),
    "DataParallel": ({"ngpu": 2}, "requires multiprocessing_distributed: true"),
    "features of unknown rate": ({"batch_rate": None}, "`batch_rate` is missing\\. .*frames per second"),
    "no groups": ({"utt2category": "nowhere"}, "nowhere: no such file; expected one line"),
    "options of the authors": ({"ctc_conf": CTC | {"dro_group_count": 6}}, "got .*dro_group_count.*comes from"),
    "no smoothing": ({"ctc_conf": {"ctc_type": "ctcdro", "dro_step_size": 1.0}}, "requires dro_step_size, dro_smooth"),
    "unknown method": ({"ctc_conf": CTC | {"dro_method": "cvar"}}, "`dro_method` .* must be one of erm, .*'cvar'"),
    "error rates": ({"ctc_conf": ERROR_WEIGHTED | {"dro_signal": "error_rate"}}, "must not be error_rate"),
    "no number": ({"ctc_conf": CTC | {"dro_smoothing": "much"}}, "could not convert string to float: 'much'"),
    "unknown reduction": ({"ctc_conf": CTC | {"dro_reduction": "max"}}, "`reduction` must be"),
    "options of another type": ({"ctc_conf": CTC | {"ctc_type": "builtin"}}, "unexpected keyword argument 'dro_"),
    "no CTC": ({"model_conf": {"ctc_weight": 0.0}}, "requires a positive `ctc_weight`"),
    "several losses": ({"model_conf": {"ctc_weight": 1.0, "interctc_weight": 0.3}}, "requires `interctc_weight: 0`"),
    "other model": ({"model": "maskctc", "decoder": "mlm", "model_conf": {"ctc_weight": 0.3}}, "requires model"),
}  # fmt: skip


@pytest.mark.parametrize("misuse", MISUSES)
def test_misuse_is_refused(data, tmp_path, misuse):
    changes, message = MISUSES[misuse]
    with pytest.raises((TypeError, ValueError), match=message):  # ESPnet raises the TypeError
        CTCDROTask.main(cmd=command(data, tmp_path, **changes))


def test_utterance_without_a_group_is_named(data, tmp_path):
    lines = (data / "train" / "utt2category").read_text().splitlines()
    (tmp_path / "groups").write_text("\n".join(lines[:-1]))
    with pytest.raises(ValueError, match="groups: expected the group of utterance 'train239', one word; found no line"):
        CTCDROTask.main(cmd=command(data, tmp_path, utt2category=str(tmp_path / "groups")))


def test_weights_of_other_groups_are_not_resumed(data, tmp_path):
    run(data, tmp_path, max_epoch=1, num_iters_per_epoch=1)
    renamed = (data / "train" / "utt2category").read_text().replace("noisy", "other")
    (tmp_path / "groups").write_text(renamed)
    with pytest.raises(ValueError, match="clear, noisy, plain"):
        run(data, tmp_path, max_epoch=2, resume=True, utt2category=str(tmp_path / "groups"))


def test_pretrained_model_of_other_groups_starts_with_fresh_weights_if_asked(finished, data, out, tmp_path):
    (tmp_path / "groups").write_text((data / "train" / "utt2category").read_text().replace("noisy", "other"))
    changes = {"utt2category": str(tmp_path / "groups"), "max_epoch": 1, "num_iters_per_epoch": 1}
    model = str(out / "2epoch.pth")
    with pytest.raises(ValueError, match="clear, noisy, plain"):
        run(data, tmp_path, init_param=[model], **changes)
    batches = run(data, tmp_path, init_param=[f"{model}:::ctc.objective"], **changes)
    torch.testing.assert_close(weights_of(batches), torch.full((1, 3), 1 / 3))


def test_sum_with_a_decoder_is_warned_of(data, tmp_path, caplog):
    run(data, tmp_path, max_epoch=1, num_iters_per_epoch=1, model_conf={"ctc_weight": 0.3})
    assert "Set dro_reduction: mean" in caplog.text


@pytest.mark.parametrize(("grad_clip", "warns"), [(5.0, True), (1000.0, False)])
def test_clipping_that_would_undo_the_weights_is_warned_of(grad_clip, warns, data, tmp_path, caplog):
    run(data, tmp_path, max_epoch=1, num_iters_per_epoch=1, grad_clip=grad_clip)
    assert ("`grad_clip` is 5, but" in caplog.text) == warns


def test_steps_may_be_written_without_a_point(data, tmp_path):
    conf = CTC | {"dro_step_size": "1e-3"}  # as YAML reads 1e-3
    run(data, tmp_path, max_epoch=1, num_iters_per_epoch=1, ctc_conf=conf)
    assert yaml.safe_load((tmp_path / "config.yaml").read_text())["ctcdro"]["step_size"] == 1e-3


def test_statistics_are_collected_with_the_same_configuration(data, tmp_path):
    cmd = [argument for argument in command(data, tmp_path) if "shape" not in argument]
    CTCDROTask.main(cmd=[*cmd, "--collect_stats", "true"])
    assert sorted((tmp_path / "train" / "speech_shape").read_text().split()) == sorted(
        (data / "train" / "speech_shape").read_text().split()
    )


def test_example_trains_and_changes_fewer_than_ten_lines(tmp_path):
    assert 0 < sum(line.rstrip().endswith("# ctcdro") for line in EXAMPLE.read_text().splitlines()) < 10
    result = subprocess.run([sys.executable, EXAMPLE, tmp_path], capture_output=True, text=True, check=True)
    weights = dict(re.findall(r"(\w+) (0\.\d+)", result.stdout.splitlines()[-1]))
    assert set(weights) == {"clear", "plain", "noisy"}
    assert float(weights["noisy"]) > float(weights["clear"])
