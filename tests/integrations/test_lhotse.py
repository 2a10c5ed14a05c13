"""lhotse's own DataLoader habits, datasets and streams, with the samplers of `ctcdro.integrations.lhotse`."""

from __future__ import annotations

import doctest
import functools
import itertools
import json
import logging
import runpy
import sys
import tracemalloc
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import toy
from lhotse import CutSet, MonoCut, Recording, SupervisionSegment
from lhotse.dataset import DynamicCutSampler, IterableDatasetWrapper, RoundRobinSampler
from lhotse.dataset.sampling.base import CutSampler
from torch.utils.data import DataLoader, Dataset

import ctcdro
from ctcdro.integrations.lhotse import LengthMatchedCutSampler, LengthMatchedStreamSampler, group_numbers
from ctcdro.integrations.lhotse import eager as eager_module
from ctcdro.integrations.lhotse import stream as stream_module
from ctcdro.sampling.base import PlannedBatchSampler
from ctcdro.speech.shards.build import open_index
from ctcdro.speech.shards.dataset import ShardDataset

ROOT = Path(__file__).parents[2]
TARGET = 50.0
NAMES = ["ces", "pol", "ron"]
MEANS = {"ces": 4.0, "pol": 7.5, "ron": 12.6, "rare": 6.0}


def cut_of(number: int | str, duration: float, language: str | None) -> MonoCut:
    spoken = SupervisionSegment(str(number), "recording", 0.0, duration, language=language)
    return MonoCut(id=str(number), start=0.0, duration=duration, channel=0, supervisions=[spoken])


class Stream:
    """A corpus that is made up while it is read: it can be of any length, and counts what was read of it."""

    def __init__(self, num_cuts: int, languages: list[str] = NAMES, seed: int = 0) -> None:
        self.num_cuts, self.languages, self.seed = num_cuts, languages, seed
        self.num_read = 0

    def __iter__(self):
        rng = np.random.default_rng(self.seed)
        self.num_read = 0
        for number in range(self.num_cuts):
            language = self.languages[number % len(self.languages)]
            self.num_read += 1
            yield cut_of(number, float(np.clip(rng.normal(MEANS[language], MEANS[language] / 4), 0.5, 20.0)), language)


def equally_long(num_cuts: int) -> CutSet:
    """Groups with the same audio."""
    rng = np.random.default_rng(0)
    durations = np.repeat(rng.uniform(2.0, 12.0, -(-num_cuts // 3)), 3)
    return CutSet.from_cuts(cut_of(n, float(durations[n]), NAMES[n % 3]) for n in range(num_cuts))


def eager(cuts, **options) -> LengthMatchedCutSampler:
    return LengthMatchedCutSampler(cuts, TARGET, **({"exponent": 1.0} | options))


def stream(cuts, buffer_size: int = 300, **options) -> LengthMatchedStreamSampler:
    return LengthMatchedStreamSampler(cuts, **({"group_names": NAMES, "buffer_size": buffer_size} | options))


@pytest.fixture(params=["eager", "stream"])
def make(request):
    """Makes a sampler of either kind over 600 cuts."""
    cuts = Stream(600)
    if request.param == "eager":
        listed = CutSet.from_cuts(list(cuts))
        return lambda **options: eager(listed, **options)
    return lambda **options: stream(cuts, **options)


def ids(batches) -> list[list[str]]:
    return [[cut.id for cut in batch] for batch in batches]


def totals(batches) -> np.ndarray:
    return np.array([sum(cut.duration for cut in batch) for batch in batches])


def share_within(batches) -> float:
    return float(np.mean(np.abs(totals(batches) - TARGET) <= 0.02 * TARGET))


def language(batch) -> str:
    (name,) = {cut.supervisions[0].language for cut in batch}
    return name


# Training: the toy corpus as cuts


class Loading(Dataset):
    """A dataset as lhotse has them: a CutSet in, a batch out. It remembers what it had to load."""

    def __init__(self) -> None:
        self.corpus, self.loaded = toy.Toy(), []

    def __getitem__(self, cuts: CutSet) -> toy.Batch:
        self.loaded.append([cut.id for cut in cuts])
        batch = toy.collate([self.corpus[int(cut.id)] for cut in cuts])
        assert batch.groups.equal(group_numbers(cuts, toy.LANGUAGES))
        return batch


def toy_cuts() -> list[MonoCut]:
    return [cut_of(n, spoken.duration, toy.LANGUAGES[spoken.group]) for n, spoken in enumerate(toy.Toy().utterances)]


def toy_sampler(kind: str, **options) -> CutSampler:
    if kind == "eager":
        cuts = CutSet.from_cuts(toy_cuts())
        return LengthMatchedCutSampler(cuts, toy.BATCH_DURATION, group_names=toy.LANGUAGES, **options)
    return LengthMatchedStreamSampler(toy_cuts(), toy.LANGUAGES, toy.BATCH_DURATION, buffer_size=60, **options)


class Run:
    """The loop of a user, with all that is saved."""

    def __init__(
        self, sampler: CutSampler, dropout: float = 0.0, criterion: ctcdro.ObjectiveCTCLoss | None = None
    ) -> None:
        self.sampler, self.dataset = sampler, Loading()
        self.model, self.criterion = toy.make_model(dropout=dropout), criterion or toy.make_criterion()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=toy.LEARNING_RATE)
        self.weights: list[torch.Tensor] = []
        self.num_taken = 0  # since the loop over the loader started

    def train(self, num_epochs: int, stop_after: int = sys.maxsize, num_workers: int = 0) -> None:
        options = {"num_workers": num_workers, "generator": torch.Generator()}
        loader = DataLoader(self.dataset, sampler=self.sampler, batch_size=None, **options)
        for epoch in range(self.sampler.epoch, num_epochs):
            self.sampler.set_epoch(epoch)
            for self.num_taken, batch in enumerate(loader, 1):
                self.optimizer.zero_grad()
                toy.batch_loss(self.model, self.criterion, batch).backward()
                self.optimizer.step()
                self.weights.append(self.criterion.weights.clone())
                if len(self.weights) == stop_after:
                    return

    def stateful(self) -> dict:
        return {name: getattr(self, name) for name in ("model", "criterion", "optimizer", "sampler")}


def error_weighted_run(**options) -> Run:
    criterion = toy.make_error_weighted()
    return Run(toy_sampler("eager", objective=criterion.objective), criterion=criterion, **options)


def test_weights_are_those_of_the_plain_loop():
    run = Run(toy_sampler("eager", objective=toy.make_criterion().objective))  # an objective that needs no shares
    run.train(num_epochs=2)
    torch.testing.assert_close(torch.stack(run.weights), toy.plain_loop())


def test_error_weighted_batches_and_weights_are_those_of_the_plain_loop():
    run = error_weighted_run()
    run.train(num_epochs=2)
    batches, weights = toy.adaptive_loop(toy.make_error_weighted())
    assert [[int(number) for number in batch] for batch in run.dataset.loaded] == batches
    assert torch.stack(run.weights).equal(weights)
    toy.assert_shares_follow_weights(batches, weights)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_an_error_weighted_run_continues_exactly_with_the_same_number_of_workers(num_workers):
    torch.manual_seed(0)
    whole = error_weighted_run(dropout=0.1)
    whole.train(num_epochs=3, num_workers=num_workers)
    num_batches = len(whole.sampler)
    for stop_after in (1, num_batches, num_batches + 7):
        torch.manual_seed(0)
        stopped = error_weighted_run(dropout=0.1)
        stopped.train(num_epochs=3, stop_after=stop_after, num_workers=num_workers)
        state = {name: part.state_dict() for name, part in stopped.stateful().items()}
        state["sampler"] = json.loads(json.dumps(stopped.sampler.state_dict(stopped.num_taken)))
        resumed = error_weighted_run(dropout=0.1)
        for name, part in resumed.stateful().items():
            part.load_state_dict(state[name])
        resumed.train(num_epochs=3, num_workers=num_workers)
        assert torch.stack(stopped.weights + resumed.weights).equal(torch.stack(whole.weights))


@pytest.mark.parametrize("kind", ["eager", "stream"])
def test_a_run_stopped_in_the_middle_of_an_epoch_continues_exactly(kind, tmp_path):
    torch.manual_seed(0)
    whole = Run(toy_sampler(kind), dropout=0.1)
    whole.train(num_epochs=2)
    stop_after = len(whole.weights) // 2 + 7

    torch.manual_seed(0)
    stopped = Run(toy_sampler(kind), dropout=0.1)
    stopped.train(num_epochs=2, stop_after=stop_after)
    state = {name: part.state_dict() for name, part in stopped.stateful().items()}
    torch.save(state | {"generator": torch.get_rng_state()}, tmp_path / "state.pt")
    resumed = Run(toy_sampler(kind), dropout=0.1)
    state = torch.load(tmp_path / "state.pt", weights_only=True)
    for name, part in resumed.stateful().items():
        part.load_state_dict(state[name])
    torch.set_rng_state(state["generator"])
    resumed.train(num_epochs=2)

    assert stopped.dataset.loaded + resumed.dataset.loaded == whole.dataset.loaded  # and nothing else was loaded
    assert torch.stack(stopped.weights + resumed.weights).equal(torch.stack(whole.weights))
    for ours, theirs in zip(resumed.model.parameters(), whole.model.parameters(), strict=True):
        assert ours.equal(theirs)


def _train_on_a_rank(rank: int, folder: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    seen = {}
    for kind in ("eager", "stream"):
        run = Run(toy_sampler(kind))
        run.model = torch.nn.parallel.DistributedDataParallel(run.model)
        run.train(num_epochs=2)
        seen[kind] = {"ids": run.dataset.loaded, "weights": torch.stack(run.weights)}
    run = error_weighted_run()
    run.model = torch.nn.parallel.DistributedDataParallel(run.model)
    run.train(num_epochs=2)
    seen["error-weighted"] = {"ids": run.dataset.loaded, "weights": torch.stack(run.weights)}
    corpus, criterion, error_weighted = toy.Toy(), toy.make_criterion(), toy.make_error_weighted()
    seen["plain"] = {"weights": _plain_loop_on_a_rank(criterion, corpus.sampler())}
    adaptive = corpus.adaptive_sampler(error_weighted)
    seen["plain, error-weighted"] = {"weights": _plain_loop_on_a_rank(error_weighted, adaptive)}
    torch.save(seen, f"{folder}/{rank}.pt")
    dist.destroy_process_group()


def _plain_loop_on_a_rank(criterion: ctcdro.ObjectiveCTCLoss, sampler: PlannedBatchSampler) -> torch.Tensor:
    """The plain loop with a sampler of the core, which shards itself, and gradients averaged."""
    corpus = toy.Toy()
    model = torch.nn.parallel.DistributedDataParallel(toy.make_model())
    optimizer = torch.optim.Adam(model.parameters(), lr=toy.LEARNING_RATE)
    weights = []
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for batch in DataLoader(corpus, batch_sampler=sampler, collate_fn=toy.collate):
            optimizer.zero_grad()
            toy.batch_loss(model, criterion, batch).backward()
            optimizer.step()
            weights.append(criterion.weights.clone())
    return torch.stack(weights)


def test_two_processes_agree_and_share_the_batches_of_one(tmp_path):
    mp.spawn(_train_on_a_rank, args=(str(tmp_path),), nprocs=2)
    first, second = (torch.load(tmp_path / f"{rank}.pt") for rank in (0, 1))
    for kind in ("eager", "stream"):
        assert first[kind]["weights"].equal(second[kind]["weights"])
        alone = toy_sampler(kind)
        batches = []
        for epoch in range(2):
            alone.set_epoch(epoch)
            own = ids(alone)
            batches += own + own[-2:-1] * (len(own) % 2) if kind == "stream" else own + own[:1] * (len(own) % 2)
        in_turns = [batch for turn in zip(first[kind]["ids"], second[kind]["ids"], strict=True) for batch in turn]
        assert in_turns == batches
    torch.testing.assert_close(first["eager"]["weights"], first["plain"]["weights"])
    assert first["error-weighted"]["weights"].equal(second["error-weighted"]["weights"])
    assert first["error-weighted"]["weights"].equal(first["plain, error-weighted"]["weights"])


# What both samplers promise


def test_every_cut_occurs_once_per_epoch_in_batches_of_one_group(make):
    sampler = make()
    for epoch in range(2):
        sampler.set_epoch(epoch)
        batches = list(sampler)
        assert sorted(itertools.chain(*ids(batches)), key=int) == [str(n) for n in range(600)]
        assert {language(batch) for batch in batches} == set(NAMES)


@pytest.mark.parametrize("world_size", [2, 3, 5])
def test_ranks_are_in_step_and_lose_nothing(make, world_size):
    alone = ids(make())
    by_rank = [ids(make(rank=rank, world_size=world_size)) for rank in range(world_size)]
    assert len({len(batches) for batches in by_rank}) == 1
    in_turns = [batch for turn in zip(*by_rank, strict=True) for batch in turn]
    assert in_turns[: len(alone)] == alone
    assert all(batch in alone for batch in in_turns[len(alone) :])
    assert len(in_turns) - len(alone) < world_size


@pytest.mark.parametrize("sampler_of", [eager, stream])
def test_ranks_are_in_step_where_they_are_more_than_the_batches(sampler_of):
    cuts = [cut_of(number, 10.0, "pol") for number in range(5)]
    by_rank = [ids(sampler_of(cuts, rank=rank, world_size=3)) for rank in range(3)]
    assert [len(batches) for batches in by_rank] == [1, 1, 1]
    assert all(sorted(batch) == list("01234") for (batch,) in by_rank)


def test_epochs_and_seeds_differ(make):
    def epoch(number, **options):
        sampler = make(**options)
        sampler.set_epoch(number)
        return ids(sampler)

    assert epoch(0) == epoch(0)
    first, second = ({frozenset(batch) for batch in epoch(number)} for number in (0, 1))
    assert len(first & second) < len(first) / 5
    assert epoch(0, seed=1) != epoch(0)


@pytest.mark.parametrize("position", [0, 1, 40, 90, 1000])
def test_a_state_continues_at_any_batch(make, position):
    whole = make()
    whole.set_epoch(3)
    expected = ids(whole)
    sampler = make()
    sampler.set_epoch(3)
    taken = ids(itertools.islice(sampler, position))
    state = sampler.state_dict()

    resumed = make()
    resumed.load_state_dict(state)
    resumed.set_epoch(3)
    assert resumed.state_dict()["position"] == state["position"]
    assert taken + ids(resumed) == expected
    assert resumed.diagnostics.kept_cuts == whole.diagnostics.kept_cuts == 600
    resumed.set_epoch(4)
    whole.set_epoch(4)
    assert ids(resumed) == ids(whole)  # the next epoch is a whole one
    again = make()
    again.load_state_dict(state)  # was not used up


def test_a_state_continues_with_another_number_of_ranks(make):
    taken = [make(rank=rank, world_size=2) for rank in (0, 1)]
    before = [ids(itertools.islice(sampler, 15)) for sampler in taken]
    resumed = make()
    resumed.load_state_dict(taken[1].state_dict())
    in_turns = [batch for turn in zip(*before, strict=True) for batch in turn]
    assert in_turns + ids(resumed) == ids(make())


def test_a_loaded_position_is_dropped_where_lhotse_drops_it(make):
    sampler = make()
    ids(itertools.islice(sampler, 5))
    resumed = make()
    resumed.load_state_dict(sampler.state_dict())
    resumed.allow_iter_to_reset_state()
    assert ids(resumed) == ids(make())


class Numbers(Dataset):
    def __getitem__(self, cuts: CutSet) -> list[int]:
        return [int(cut.id) for cut in cuts]


def test_batches_requested_ahead_of_time_by_workers_are_not_lost(make):
    expected = list(DataLoader(Numbers(), sampler=make(), batch_size=None))
    sampler = make()
    taken = list(itertools.islice(DataLoader(Numbers(), sampler=sampler, batch_size=None, num_workers=2), 10))
    resumed = make()
    resumed.load_state_dict(sampler.state_dict(num_taken=10))
    assert sampler.state_dict()["position"] > 10
    assert taken + list(DataLoader(Numbers(), sampler=resumed, batch_size=None)) == expected


def is_short(cut: MonoCut) -> bool:
    return cut.duration < 10.0


def test_filters_and_maps_of_lhotse_apply(make):
    sampler = make()
    sampler.filter(is_short)
    sampler.map(lambda cuts: cuts.modify_ids(lambda name: f"mapped-{name}"))
    seen = [cut for batch in sampler for cut in batch]
    kept = [cut.id for cut in Stream(600) if is_short(cut)]
    assert sorted(cut.id for cut in seen) == sorted(f"mapped-{number}" for number in kept)


@pytest.mark.parametrize("num_workers", [0, 1])
def test_the_samplers_work_in_an_iterable_dataset(make, num_workers):
    wrapped = IterableDatasetWrapper(Numbers(), make())
    loader = DataLoader(wrapped, batch_size=None, num_workers=num_workers)
    for epoch in range(2):
        wrapped.set_epoch(epoch)
        expected = make()
        expected.set_epoch(epoch)
        assert list(loader) == [[int(cut.id) for cut in batch] for batch in expected]


# The eager sampler


def test_equal_shares_are_the_default_as_in_the_core():
    corpus = toy.Toy()
    sampler = toy_sampler("eager")
    assert [[int(number) for number in batch] for batch in ids(sampler)] == list(corpus.sampler())
    assert len(sampler) == len(DataLoader(Numbers(), sampler=sampler, batch_size=None)) == len(corpus.sampler())
    assert sampler.num_cuts == 240


def with_rates(*rates: float, **options) -> LengthMatchedCutSampler:
    """A sampler whose shares are these error rates."""
    objective = ctcdro.error_weighted(len(rates), power=1.0, signal="error_rate")
    objective.update_error_rates(rates)
    return toy_sampler("eager", objective=objective, **options)


def test_ranks_take_turns_with_the_batches_of_adaptive_shares():
    batches = ids(with_rates(0.6, 0.3, 0.1))
    groups = [toy.Toy().groups[int(batch[0])] for batch in batches]
    np.testing.assert_allclose(np.bincount(groups) / len(groups), [0.6, 0.3, 0.1], atol=0.02)
    for world_size in (2, 5):
        ranks = [ids(with_rates(0.6, 0.3, 0.1, rank=rank, world_size=world_size)) for rank in range(world_size)]
        in_turns = [batch for turn in zip(*ranks, strict=True) for batch in turn]
        assert in_turns[: len(batches)] == batches
        assert len(in_turns) - len(batches) == -len(batches) % world_size


# The stream


def test_groups_come_in_rounds_while_all_have_cuts():
    batches = list(stream(equally_long(3000)))
    rounds = [language(batch) for batch in batches]
    complete = len(rounds) // 3 - 5
    assert set(rounds[:3]) == set(NAMES)
    assert rounds[: 3 * complete] == complete * rounds[:3]


def test_totals_are_matched_as_well_as_by_the_eager_sampler_and_better_than_by_lhotse():
    cuts = list(Stream(6000))
    ours, planned = list(stream(cuts, buffer_size=1000)), list(eager(cuts))
    of_lhotse = list(
        RoundRobinSampler(
            *(
                DynamicCutSampler(CutSet(own), max_duration=TARGET, shuffle=True)
                for own in ([cut for cut in cuts if cut.supervisions[0].language == name] for name in NAMES)
            )
        )
    )
    assert share_within(ours) > 0.95
    assert share_within(ours) > share_within(planned) - 0.03
    assert share_within(of_lhotse) < 0.5
    assert totals(ours).std() < 0.5 < 2.0 < totals(of_lhotse).std()


def test_a_flood_of_one_group_fills_no_memory_and_leaves_a_rare_one_its_turns():
    languages = ["ces"] * 39 + ["rare"]
    cuts, buffer_size = Stream(20_000, languages), 400
    num_given, batches = 0, []
    for batch in stream(cuts, buffer_size, group_names=["ces", "rare"]):
        assert cuts.num_read - num_given <= buffer_size
        num_given += len(batch)
        batches.append(batch)
    assert num_given == 20_000
    rare = [number for number, batch in enumerate(batches) if language(batch) == "rare"]
    assert share_within([batches[number] for number in rare]) > 0.9
    quarters = Counter(4 * number // len(batches) for number in rare)
    assert len(quarters) == 4
    assert max(quarters.values()) < 2 * min(quarters.values())


def test_a_stream_sorted_by_group_still_gives_every_cut_in_bounded_memory():
    cuts = Stream(3000, sorted(NAMES * 1000))
    num_given, batches = 0, []
    for batch in stream(cuts):
        assert cuts.num_read - num_given <= 300
        num_given += len(batch)
        batches.append(batch)
    assert num_given == 3000
    assert share_within(batches) > 0.9


def test_a_buffer_too_small_for_a_batch_is_reported_and_training_continues(caplog):
    batches = list(stream(Stream(300), buffer_size=4))
    assert sum(len(batch) for batch in batches) == 300
    assert caplog.text.count("`buffer_size` of 4 cuts") == 1


def test_memory_does_not_grow_with_the_stream():
    def peak(num_cuts: int) -> int:
        tracemalloc.start()
        for _ in stream(Stream(num_cuts)):
            pass
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    peak(1000)  # what is made once
    assert peak(5000) < 1.1 * peak(1000)


def test_an_utterance_longer_than_a_batch_is_a_separate_batch():
    cuts = [*Stream(300), cut_of("long", 70.0, "pol")]
    assert ["long"] in ids(stream(cuts))
    assert ["long"] in ids(stream(cuts[::-1], buffer_size=100))


@pytest.fixture
def shar_folder(tmp_path) -> Path:
    CutSet.from_cuts(Stream(600)).to_shar(tmp_path, fields={}, shard_size=50)
    return tmp_path


def test_shards_are_shuffled_by_the_epoch_so_that_a_new_process_resumes(shar_folder):
    def of_epoch(epoch):
        cuts = CutSet.from_shar(in_dir=shar_folder, shuffle_shards=True)
        sampler = stream(CutSet.mux(cuts.filter(is_short), equally_long(30)), buffer_size=100)
        sampler.set_epoch(epoch)
        return sampler

    sampler = of_epoch(2)
    expected = ids(sampler)
    taken = ids(itertools.islice(sampler, 40))
    assert expected[:40] == taken
    resumed = of_epoch(0)
    resumed.load_state_dict(sampler.state_dict())
    assert taken + ids(resumed) == expected
    assert ids(of_epoch(1))[0] != expected[0]


def test_workers_share_the_shards_among_them(shar_folder):
    cuts = CutSet.from_shar(in_dir=shar_folder, split_for_dataloading=True)
    sampler = stream(cuts, buffer_size=100, rank=0, world_size=1)
    loader = DataLoader(IterableDatasetWrapper(Numbers(), sampler), batch_size=None, num_workers=2)
    assert sorted(itertools.chain(*loader)) == list(range(600))


@pytest.mark.parametrize(("num_workers", "split", "num_warnings"), [(2, False, 1), (2, True, 0), (1, False, 0)])
def test_workers_that_each_read_the_whole_stream_are_reported_once(
    shar_folder, tmp_path, num_workers, split, num_warnings
):
    cuts = CutSet.from_shar(in_dir=shar_folder, split_for_dataloading=split).filter(is_short)
    assert num_reports(cuts, num_workers, tmp_path / "log.txt") == num_warnings


@pytest.mark.parametrize(("cuts", "num_warnings"), [(list(Stream(60)), 1), (CutSet(Stream(60)), 0)])
def test_a_list_is_read_whole_but_a_stream_of_another_class_may_know_its_worker(tmp_path, cuts, num_warnings):
    assert num_reports(cuts, 2, tmp_path / "log.txt") == num_warnings


def num_reports(cuts, num_workers: int, log: Path) -> int:
    wrapped = IterableDatasetWrapper(Numbers(), stream(cuts, buffer_size=100, rank=0, world_size=1))
    log_to_file = functools.partial(add_log_file, log)
    list(DataLoader(wrapped, batch_size=None, num_workers=num_workers, worker_init_fn=log_to_file))
    return log.read_text().count("Each of 2 workers reads the whole stream, so every cut occurs 2 times")


def add_log_file(path: Path, worker: int) -> None:
    logging.getLogger("ctcdro").addHandler(logging.FileHandler(path))


def test_equal_shares_of_unequal_groups_come_from_repeated_streams():
    cuts = list(equally_long(3000))
    sizes = {"ces": 20, "pol": 200, "ron": 1000}
    unequal = [CutSet.from_cuts(cuts[group::3][:size]) for group, size in enumerate(sizes.values())]

    def mixed() -> LengthMatchedStreamSampler:
        return stream(CutSet.mux(*(each.repeat() for each in unequal)))

    sampler = mixed()
    shares = Counter(language(batch) for batch in itertools.islice(sampler, 300))
    assert all(90 <= shares[name] <= 110 for name in sizes)
    state = sampler.state_dict()
    expected = ids(next(sampler) for _ in range(50))
    resumed = mixed()
    resumed.load_state_dict(state)
    assert ids(itertools.islice(resumed, 50)) == expected


def test_files_that_lhotse_shuffles_can_be_resumed_in_their_first_epoch_only(tmp_path):
    paths = [tmp_path / f"{number}.jsonl" for number in range(6)]
    for number, path in enumerate(paths):
        CutSet.from_cuts(list(Stream(600))[number::6]).to_file(path)

    def shuffled() -> LengthMatchedStreamSampler:
        return stream(CutSet.from_files(paths, shuffle_iters=True, seed=0), buffer_size=100)

    for epoch in (0, 1):
        sampler = shuffled()
        for earlier in range(epoch):
            sampler.set_epoch(earlier)
            ids(sampler)
        sampler.set_epoch(epoch)
        taken, state = ids(itertools.islice(sampler, 20)), sampler.state_dict()
        resumed = shuffled()
        resumed.load_state_dict(state)
        if epoch == 0:
            assert taken + ids(resumed) == ids(shuffled())
        else:
            with pytest.raises(ValueError, match="cuts of this stream differ from those"):
                list(resumed)


# Mistakes


def test_a_cut_without_language_is_named():
    for cut in (cut_of("a7", 3.0, None), MonoCut("a7", 0.0, 3.0, 0)):
        with pytest.raises(ValueError, match=r"cut 'a7' has no language, .*`group_of`"):
            eager([cut])
        with pytest.raises(ValueError, match=r"cut 'a7' has no language, .*`group_of`"):
            list(stream([cut]))


def test_a_group_that_was_not_named_is_reported():
    cut = cut_of("a7", 3.0, "khm")
    for call in (
        lambda: list(stream([cut])),
        lambda: eager([cut], group_names=NAMES),
        lambda: group_numbers([cut], NAMES),
    ):
        with pytest.raises(ValueError, match=r"Cut 'a7' has group 'khm', which is not in `group_names` \(ces, pol"):
            call()


def test_a_group_that_never_occurs_is_reported(caplog):
    list(stream(Stream(300), group_names=[*NAMES, "khm"]))
    assert "not in the stream: khm" in caplog.text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_duration": 0.0}, "`batch_duration` must be a positive"),
        ({"buffer_size": 0}, "`buffer_size` must be a positive integer"),
        ({"group_names": "ces"}, "`group_names` must be a list of different names"),
        ({"seed": "trng"}, "`seed` must be a non-negative integer"),
        ({"cuts": iter([])}, "`cuts` must be iterable several times"),
    ],
)
def test_wrong_arguments_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        stream(**({"cuts": []} | options))


def test_the_eager_sampler_refuses_what_it_cannot_plan():
    with pytest.raises(ValueError, match="use `LengthMatchedStreamSampler`"):
        eager(CutSet(Stream(10)))
    with pytest.raises(ValueError, match="the filter rejected all 10 cuts"):
        list(eager(list(Stream(10))).filter(lambda cut: False))


def test_the_eager_sampler_refuses_to_come_once_for_each_worker():
    loader = DataLoader(IterableDatasetWrapper(Numbers(), eager(list(Stream(60)))), batch_size=None, num_workers=2)
    with pytest.raises(ValueError, match="each worker of an `IterableDatasetWrapper` would yield all"):
        list(loader)


def test_an_objective_of_other_groups_is_refused():
    with pytest.raises(ValueError, match="in the same order: clear, plain, noisy; got 2 groups"):
        with_rates(0.6, 0.4)
    of_other_order = ctcdro.error_weighted(3, group_names=["plain", "clear", "noisy"])
    with pytest.raises(ValueError, match="in the same order: clear, plain, noisy; got plain, clear, noisy"):
        toy_sampler("eager", objective=of_other_order)


def test_adaptive_shares_are_refused_in_a_worker_which_has_a_copy_of_the_objective():
    wrapped = IterableDatasetWrapper(Numbers(), with_rates(0.6, 0.3, 0.1))
    with pytest.raises(ValueError, match="has a copy of `objective`"):
        list(DataLoader(wrapped, batch_size=None, num_workers=1))


def test_a_state_of_other_options_is_refused(make):
    state = make().state_dict()
    with pytest.raises(ValueError, match="seed: 0 → 1"):
        make(seed=1).load_state_dict(state)
    with pytest.raises(ValueError, match="must come from"):
        make().load_state_dict(DynamicCutSampler(CutSet(Stream(3)), max_duration=9.0).state_dict())


def test_a_state_of_other_cuts_is_refused():
    with pytest.raises(ValueError, match=r"data: .* → "):
        eager(list(Stream(600, seed=1))).load_state_dict(eager(list(Stream(600))).state_dict())


@pytest.mark.parametrize("other", [Stream(90), list(Stream(600))[::-1]])
def test_another_stream_is_noticed_when_resuming(other):
    sampler = stream(Stream(600), buffer_size=100)
    ids(itertools.islice(sampler, 20))
    resumed = stream(other, buffer_size=100)
    resumed.load_state_dict(sampler.state_dict())
    with pytest.raises(ValueError, match="cuts of this stream differ from those"):
        list(resumed)


# The examples and the benchmark


@pytest.mark.parametrize("module", [eager_module, stream_module])
def test_examples_in_docstrings_hold(module):
    assert doctest.testmod(module).failed == 0


def test_the_example_changes_under_ten_lines_and_favors_the_noisy_language(capsys):
    path = ROOT / "examples" / "lhotse_ctc.py"
    assert sum(line.endswith("# ctcdro") for line in path.read_text().splitlines()) == 6 < 10
    clear, plain, noisy = runpy.run_path(str(path))["main"](num_epochs=3).tolist()
    assert noisy > plain > clear
    assert capsys.readouterr().out.count("noisy") == 3


def test_the_benchmark_runs_on_small_streams(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import lhotse_stream

    figures = {name: lhotse_stream.measure(name, 2000, 500) for name in lhotse_stream.SAMPLERS}
    ours = figures.pop("LengthMatchedStreamSampler")
    assert ours["num_seen"] == 2000
    assert ours["single"] == 1.0
    assert ours["within"] > 0.8 > 0.2 > figures["lhotse's DynamicBucketingSampler"]["within"]
    assert lhotse_stream.in_a_process("resuming", 2000, 500)["num_read"] > 500


def spoken_cuts(folder: Path) -> CutSet:
    """Cuts of recordings on disk, of which the first is the middle of a longer recording."""
    rng = np.random.default_rng(0)
    cuts = []
    for number in range(7):
        path = folder / f"{number}.wav"
        soundfile.write(path, 0.1 * rng.standard_normal(16_000 + 1000 * number), 16_000)
        recording = Recording.from_file(path, recording_id=f"recording-{number}")
        cut = recording.to_cut() if number else recording.to_cut().truncate(offset=0.25, duration=0.5)
        spoken = SupervisionSegment(f"{number}", recording.id, 0.0, cut.duration, text=f"text {number}")
        spoken.language, spoken.speaker = NAMES[number % 3], "anna"
        cuts.append(cut.with_id(f"cut-{number}.a"))
        cuts[-1].supervisions = [spoken]
    return CutSet.from_cuts(cuts)


@pytest.mark.parametrize("kind", ["wav", "flac"])
def test_training_reads_what_lhotse_writes_as_shar(tmp_path, kind):
    cuts = spoken_cuts(tmp_path)
    folder = tmp_path / "dataset" / "train"
    folder.mkdir(parents=True)
    fields = cuts.to_shar(folder, fields={"recording": kind}, shard_size=3)
    for is_listed in (False, True):
        if is_listed:
            (tmp_path / "dataset/train.json").write_text(json.dumps(fields))
        index = open_index(folder.parent)
        dataset = ShardDataset(index, index.vocabulary())
        read = {one.id: (one, dataset[number]) for number, one in enumerate(index)}
        assert set(read) == {cut.id for cut in cuts}
        for cut in CutSet.from_shar(in_dir=folder):
            utterance, loaded = read[cut.id]
            [spoken] = cut.supervisions
            assert (utterance.text, utterance.lang) == (spoken.text, spoken.language)
            assert utterance.duration == cut.duration
            assert np.array_equal(loaded.inputs, cut.load_audio()[0])
