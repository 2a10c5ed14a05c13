"""Saves and restores random generators, for toolkits whose checkpoints do not contain them.

Dropout uses torch's global generator, SpecAugment in `transformers` uses numpy's. Resuming is exact only if both are
restored and nothing else draws from them. A new iterator of a `DataLoader` does draw from torch's, for the seeds of its
workers, unless the loader has its own generator.
"""

from __future__ import annotations

import logging
import random
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader

from ..runtime.ranks import rank_and_world_size
from ..sampling.base import PlannedBatchSampler

logger = logging.getLogger(__name__)


def generator_state() -> dict[str, Any]:
    """State of the global generators of Python, numpy, torch and the current CUDA device, as plain values."""
    of_numpy: Any = np.random.get_state()  # noqa: NPY002
    name, keys, *rest = of_numpy
    state = {
        "python": random.getstate(),
        "numpy": [name, keys.tolist(), *rest],
        "torch": torch.get_rng_state().tolist(),
    }
    return state | ({"cuda": torch.cuda.get_rng_state().tolist()} if torch.cuda.is_initialized() else {})


def set_generator_state(state: dict[str, Any]) -> None:
    version, values, gauss = state["python"]
    random.setstate((version, tuple(values), gauss))
    np.random.set_state(tuple(state["numpy"]))  # noqa: NPY002
    torch.set_rng_state(torch.tensor(state["torch"], dtype=torch.uint8))
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(torch.tensor(state["cuda"], dtype=torch.uint8))


def restore_generators(states: list[dict[str, Any]]) -> None:
    """Restores the generators of this process from the states of all; does nothing if the number has changed."""
    rank, world_size = rank_and_world_size()
    if len(states) == world_size:
        set_generator_state(states[rank])
    else:
        logger.warning(
            f"The checkpoint contains the random generators of {len(states)} process(es), but this run has "
            f"{world_size}; dropout and augmentation will differ from an uninterrupted run."
        )


def seed_workers(loader: DataLoader, sampler: PlannedBatchSampler) -> None:
    """Gives a loader its own generator, unless it has one, and seeds it with seed, epoch and rank."""
    if loader.generator is None:
        loader.generator = EpochGenerator()
    if isinstance(loader.generator, EpochGenerator):
        rank, _ = sampler.rank_and_world_size
        entropy = [sampler.seed, sampler.epoch, rank]
        loader.generator.manual_seed(int(np.random.SeedSequence(entropy).generate_state(1)[0]))


class EpochGenerator(torch.Generator):
    """Marks generators created by `seed_workers`; those of users are not reseeded."""
