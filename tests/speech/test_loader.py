"""Batches of audio and labels: padding, order, worker processes, and files that cannot be read."""

import multiprocessing
import pickle

import numpy as np
import pytest
import soundfile
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from ctcdro import CTCDROLoss, LengthMatchedBatchSampler, Manifest, Utterance
from ctcdro.speech.audio import AudioError, read_audio
from ctcdro.speech.batch import Batch, LoadedUtterance, Skipped, collate
from ctcdro.speech.dataset import SpeechDataset
from ctcdro.speech.loader import load_batches
from ctcdro.speech.vocabulary import Vocabulary

RATE = 16_000
TEXTS = {"ces": "dobrý den", "cmn": "你好", "nan": "lí hó"}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """A manifest of 24 utterances in three languages: WAV and FLAC, and stretches of one long stereo file."""
    folder = tmp_path_factory.mktemp("corpus")
    rng = np.random.default_rng(0)
    soundfile.write(folder / "long.flac", rng.uniform(-0.5, 0.5, (10 * 22_050, 2)), 22_050)
    utterances = []
    for number in range(24):
        lang = sorted(TEXTS)[number % 3]
        duration = round(rng.uniform(0.2, 1.2), 2)
        text = TEXTS[lang][: 1 + number % 5]
        if number % 4 == 0:
            record = Utterance(str(folder / "long.flac"), duration, text, lang, offset=number / 4)
        else:
            path = folder / f"{number}.{'wav' if number % 2 else 'flac'}"
            soundfile.write(path, rng.uniform(-0.5, 0.5, round(duration * RATE)), RATE)
            record = Utterance(str(path), duration, text, lang)
        utterances.append(record)
    Manifest(utterances).write(folder / "train.jsonl")
    return Manifest.read(folder / "train.jsonl")


@pytest.fixture(scope="module")
def vocabulary():
    return Vocabulary.of(TEXTS.values(), TEXTS)


def with_faults(folder):
    """A manifest of six utterances: the third is missing, the fourth is text, the fifth is too short."""
    utterances = []
    for number in range(6):
        num_samples = 100 if number == 4 else 8000
        soundfile.write(folder / f"{number}.wav", np.full(num_samples, 0.1), RATE)
        utterances.append(Utterance(str(folder / f"{number}.wav"), num_samples / RATE, "ano", "ces"))
    (folder / "2.wav").unlink()
    (folder / "3.wav").write_text("not audio")
    Manifest(utterances).write(folder / "train.jsonl")
    return Manifest.read(folder / "train.jsonl")


def assert_same(left, right):
    for name, one, other in zip(Batch._fields, left, right, strict=True):
        assert one.equal(other) if isinstance(one, torch.Tensor) else one == other, name


# Padding.


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(0, 9)), max_size=6), st.integers(0, 3))
def test_what_is_padded_can_be_taken_apart_again(sizes, num_skipped):
    rng = np.random.default_rng(0)
    items = [
        LoadedUtterance(
            rng.normal(size=num_samples).astype(np.float32),
            rng.integers(1, 50, num_labels).tolist(),
            index % 2,
            index,
        )
        for index, (num_samples, num_labels) in enumerate(sizes)
    ]
    batch = collate([*items, *(Skipped(f"{number}.wav: empty file.") for number in range(num_skipped))])
    assert batch.num_utterances == len(items) == len(batch.inputs) == len(batch.targets)
    assert batch.inputs.dtype == torch.float32
    assert batch.inputs.shape[1] == max((size[0] for size in sizes), default=0)
    assert batch.targets.shape[1] == max((size[1] for size in sizes), default=0)
    for name in ("lengths", "targets", "num_labels", "groups", "indices"):
        assert getattr(batch, name).dtype == torch.int64
    for row, item in enumerate(items):
        end, last = batch.lengths[row], batch.num_labels[row]
        np.testing.assert_array_equal(batch.inputs[row, :end], item.inputs)
        assert batch.targets[row, :last].tolist() == item.labels
        assert not batch.inputs[row, end:].any()
        assert not batch.targets[row, last:].any()
        assert (batch.groups[row], batch.indices[row]) == (item.group, item.index)
    assert len(batch.skipped) == num_skipped


def test_characters_are_labels_without_the_language_token(vocabulary):
    texts = ["dobrý den", "a", ""]
    labels = [vocabulary.encode(text, "ces") for text in texts]
    audio = np.ones(3, np.float32)
    batch = collate([LoadedUtterance(audio, each, 0, index) for index, each in enumerate([*labels, []])])
    assert batch.num_labels.tolist() == [10, 2, 1, 0]
    assert batch.num_characters.tolist() == [9, 1, 0, 0]
    assert batch.num_characters.dtype == torch.int64
    assert batch.to("meta").num_characters.is_cpu


# From a manifest.


def test_items_are_what_the_manifest_says(corpus, vocabulary):
    dataset = SpeechDataset(corpus, vocabulary)
    assert len(dataset) == len(corpus)
    numbers = corpus.groups().numbers
    for number, utterance in enumerate(corpus):
        item = dataset[number]
        audio = read_audio(utterance.audio_filepath, utterance.offset, utterance.duration)
        np.testing.assert_array_equal(item.inputs, audio)
        assert abs(len(item.inputs) - utterance.duration * RATE) <= 1
        assert vocabulary.decode(item.labels) == (utterance.lang, utterance.text.strip())
        assert (item.group, item.index) == (numbers[number], number)


def test_groups_may_be_given(corpus):
    batch = collate([SpeechDataset(corpus, group_numbers=np.arange(24) % 2)[number] for number in (4, 5)])
    assert batch.groups.tolist() == [0, 1]


def test_without_a_vocabulary_there_are_no_labels(corpus):
    batch = collate([SpeechDataset(corpus)[number] for number in (0, 1)])
    assert batch.targets.shape == (2, 0)
    assert batch.num_labels.tolist() == [0, 0]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_batches_come_as_the_sampler_orders_them(corpus, vocabulary, num_workers):
    sampler = LengthMatchedBatchSampler(corpus.durations, corpus.groups().numbers, batch_duration=2.0)
    dataset = SpeechDataset(corpus, vocabulary)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        loader = load_batches(dataset, sampler, num_workers)
        assert len(loader) == len(sampler)
        plan = sampler.plan(epoch)
        for number, batch in enumerate(loader):
            assert batch.indices.tolist() == list(plan[number])
            assert_same(batch, collate([dataset[index] for index in plan[number]]))
        assert number == len(plan) - 1
    assert not multiprocessing.active_children()


def test_workers_end_when_a_loop_is_left_early(corpus):
    batches = iter(load_batches(SpeechDataset(corpus), [[number] for number in range(24)], num_workers=2))
    next(batches)
    assert len(multiprocessing.active_children()) == 2
    del batches
    assert not multiprocessing.active_children()


def test_a_dataset_is_small_to_send_to_a_worker():
    utterances = [Utterance(f"clips/{number:08}.flac", 3.0, "dobrý den", "ces") for number in range(10_000)]
    dataset = SpeechDataset(Manifest(utterances), Vocabulary.of(["dobrý den"], ["ces"]))
    assert len(pickle.dumps(dataset)) < 100 * len(dataset)


def test_a_batch_goes_into_the_losses_as_it_is(corpus, vocabulary):
    criterion = CTCDROLoss(num_groups=3, step_size=1e-3, smoothing=0.5)
    for batch in load_batches(SpeechDataset(corpus, vocabulary), [[0, 3, 6], [1, 4], [2, 5]]):
        num_frames = batch.lengths // 160
        logits = torch.randn(int(num_frames.max()), batch.num_utterances, len(vocabulary), requires_grad=True)
        log_probs = logits.log_softmax(-1)
        plain = F.ctc_loss(log_probs, batch.targets, num_frames, batch.num_labels, reduction="sum")
        robust = criterion(log_probs, batch.targets, num_frames, batch.num_labels, batch.groups)
        assert torch.isfinite(plain)
        robust.backward()
        assert logits.grad.isfinite().all()
    assert criterion.weights.sum().item() == pytest.approx(1)


# Files that cannot be read.


def test_the_process_of_the_loop_ends_workers_that_a_fork_server_started(corpus, vocabulary):
    loader = load_batches(SpeechDataset(corpus, vocabulary), [[0], [1]], num_workers=1)
    loader.multiprocessing_context = "forkserver"
    batches = iter(loader)
    next(batches)
    [worker] = multiprocessing.active_children()
    worker.terminate()
    worker.join(60)
    assert worker.exitcode == 0


@pytest.mark.parametrize(
    ("num_workers", "number", "message"),
    [
        (0, 2, r"^.*train\.jsonl:3: .*2\.wav: no such file\."),
        (0, 4, r"^.*train\.jsonl:5: .*4\.wav: 0\.006 s of audio, less than 0\.025 s\. Remove it"),
        (2, 3, r"^.*train\.jsonl:4: .*3\.wav: not audio that libsndfile can read \(.*\)\. Convert it"),
    ],
)
def test_a_fault_stops_the_loop_and_names_line_and_file(tmp_path, num_workers, number, message):
    batches = iter(load_batches(SpeechDataset(with_faults(tmp_path)), [[0, 1], [5, number], [0, 5]], num_workers))
    assert next(batches).num_utterances == 2
    with pytest.raises(AudioError, match=message) as caught:
        next(batches)
    assert "\n" not in str(caught.value)
    assert not multiprocessing.active_children()


@pytest.mark.parametrize("num_workers", [0, 2])
def test_faults_can_be_skipped_and_are_reported(tmp_path, num_workers):
    dataset = SpeechDataset(with_faults(tmp_path), on_bad_audio="skip")
    batches = list(load_batches(dataset, [[0, 2, 1], [3, 4], [5]], num_workers))
    assert [batch.indices.tolist() for batch in batches] == [[0, 1], [], [5]]
    assert [len(batch.skipped) for batch in batches] == [1, 2, 0]
    assert batches[0].skipped[0].startswith(f"{tmp_path}/train.jsonl:3: {tmp_path}/2.wav: no such file.")
    empty = batches[1]
    assert empty.num_utterances == 0
    assert (empty.inputs.shape, empty.targets.shape) == ((0, 0), (0, 0))


def test_ranks_stay_in_step_over_a_batch_of_nothing(tmp_path):
    criterion = CTCDROLoss(num_groups=1, step_size=1e-3, smoothing=0.5)
    batch = collate([Skipped("a.wav: empty file.")])
    loss = criterion.objective(torch.zeros(0, requires_grad=True), batch.groups)
    loss.backward()
    assert loss == 0


def test_utterances_that_come_from_no_file_are_numbered():
    dataset = SpeechDataset(Manifest([Utterance("nowhere.wav", 1.0, "ano", "ces")]))
    with pytest.raises(AudioError, match=r"^utterance 0: nowhere\.wav: no such file\."):
        dataset[0]


def test_arguments_that_do_not_fit_are_rejected(corpus):
    with pytest.raises(ValueError, match='`on_bad_audio` must be "fail" or "skip"; got \'ignore\''):
        SpeechDataset(corpus, on_bad_audio="ignore")
    with pytest.raises(
        ValueError,
        match=r"must have one integer, or one row of shares, for each of 24 utterances, .*; got shape \(3,\)",
    ):
        SpeechDataset(corpus, group_numbers=[0, 1, 2])
    with pytest.raises(ValueError, match=r"`vocabulary` has no token for cmn, nan \(it has ces\)"):
        SpeechDataset(corpus, Vocabulary.of(["ano"], ["ces"]))
