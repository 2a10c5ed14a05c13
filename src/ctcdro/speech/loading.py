"""Manifests -> padded batches of audio and labels, by worker processes if wanted.

    batch_sampler = LengthMatchedBatchSampler(manifest.durations, manifest.groups().numbers, batch_duration=50)
    for batch in load_batches(SpeechDataset(manifest, vocabulary), batch_sampler, num_workers=2):
        log_probs, num_frames = model(batch.audio, batch.num_samples)
        loss = criterion(log_probs, batch.targets, num_frames, batch.num_labels, batch.groups)  # CTCDROLoss

Guarantees: batches follow the order of the sampler, and hold the same numbers with any number of workers. Loading uses
no random numbers and leaves torch's global generator unchanged. A file that cannot be read stops the loop with an
`AudioError` that begins with the manifest line and the file name, or is skipped and reported in `Batch.skipped`.
"""

from __future__ import annotations

import math
import os
import signal
import threading
import traceback
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from ..runtime.workers import WORKER_GONE
from .audio import MIN_DURATION, SAMPLE_RATE, AudioError, Samples, Seconds, read_audio
from .manifest import Manifest
from .vocabulary import Vocabulary

OnFault: TypeAlias = Literal["stop", "skip"]


def check_audio_exists(manifests: Iterable[Manifest]) -> None:
    """Checks that all audio files exist, so that a missing one stops a run before its first step; opens none.

    Raises:
        AudioError: names the first missing file with its line, and the number of utterances without audio.
    """
    missing = [
        (manifest.where(number), utterance.audio_filepath)
        for manifest in manifests
        for number, utterance in enumerate(manifest)
        if not os.path.exists(utterance.audio_filepath)
    ]
    if missing:
        where, path = missing[0]
        raise AudioError(
            f"{where}: {path}: no such file; the audio of {len(missing):,} utterances is missing. List them with "
            "`ctcdro check --headers-only`, or skip them with batches.on_fault: skip."
        )


class Item(NamedTuple):
    """One utterance, as `collate` takes it."""

    audio: Samples
    labels: list[int]
    group: int
    number: int
    """Its place in the manifest."""


class Batch(NamedTuple):
    """Utterances that are read and padded; what `torch.nn.functional.ctc_loss` and `CTCDROLoss` take as it is.

    All tensors are in host memory. Move them with `to`, which keeps the lengths on the host.
    """

    audio: Tensor
    """(B, T) float32, zero after the end of each utterance; or (B, T, …), if the dataset gives features instead."""
    num_samples: Tensor
    """(B,) int64, the samples, or features, of each utterance."""
    targets: Tensor
    """(B, S) int64 labels, zero after the end of each utterance; S is 0 without a vocabulary."""
    num_labels: Tensor
    """(B,) int64, the labels of each utterance."""
    groups: Tensor
    """(B,) int64, the group number of each utterance."""
    indices: Tensor
    """(B,) int64, the place of each utterance in the manifest."""
    skipped: list[str]
    """What was wrong with each utterance that was left out."""

    @property
    def num_utterances(self) -> int:
        """Zero if all were left out.

        A loop then has nothing to do, and passes over the batch. With several ranks the others wait for this one, so
        let it take the step with no losses, `objective(torch.zeros(0), batch.groups)`, or clean the manifest before.
        """
        return len(self.num_samples)

    def to(self, device: torch.device | str) -> Batch:
        """Copies audio, targets and groups to a device.

        Lengths and indices stay on the host: models read them, and reading from a GPU waits for all its pending work.
        """
        audio, targets, groups = (
            tensor.to(device, non_blocking=True) for tensor in (self.audio, self.targets, self.groups)
        )
        return self._replace(audio=audio, targets=targets, groups=groups)

    def __reduce__(self) -> tuple[Any, ...]:
        # On its way from a worker, every tensor takes shared memory and a file descriptor, and a third of a
        # millisecond. Only the audio is worth it; the rest travels as arrays.
        audio, *small, skipped = self
        return _unpacked, (audio, [tensor.numpy() if tensor.is_cpu else tensor for tensor in small], skipped)


def _unpacked(audio: Tensor, small: list[Any], skipped: list[str]) -> Batch:
    return Batch._make([audio, *map(torch.as_tensor, small), skipped])


class SpeechDataset(Dataset[Item | str]):
    """The utterances of a manifest, read from their files when asked for.

    Args:
        manifest: the utterances. Their texts must be as the vocabulary was made from: normalized.
        vocabulary: turns texts into labels; None where there is no use for labels.
        group_numbers: (n,) group of each utterance; by default its language's place among those of the vocabulary, so
            that it is the same in all splits.
        on_fault: "stop" raises an `AudioError` where a file cannot be read, "skip" leaves the utterance out.
        min_duration: utterances shorter than this are faults, too.
        max_duration: and those longer than this.
        sample_rate: of the samples.

    Raises:
        ValueError: if an argument is wrong, or the vocabulary lacks a language of the manifest.

    Example:
        >>> import tempfile, soundfile
        >>> from ctcdro import Utterance
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     soundfile.write(f"{folder}/a.wav", np.zeros(4000), 16_000)
        ...     manifest = Manifest([Utterance(f"{folder}/a.wav", duration=0.25, text="ano", lang="ces")])
        ...     item = SpeechDataset(manifest, Vocabulary.of(["ano"], ["ces"]))[0]
        >>> item.audio.shape, item.labels, item.group, item.number
        ((4000,), [3, 4, 5, 6], 0, 0)
    """

    def __init__(
        self,
        manifest: Manifest,
        vocabulary: Vocabulary | None = None,
        group_numbers: npt.ArrayLike | None = None,
        *,
        on_fault: OnFault = "stop",
        min_duration: Seconds = MIN_DURATION,
        max_duration: Seconds = math.inf,
        sample_rate: int = SAMPLE_RATE,
    ) -> None:
        if on_fault not in get_args(OnFault):
            raise ValueError(f'`on_fault` must be "stop" or "skip"; got {on_fault!r}.')
        languages = sorted({utterance.lang for utterance in manifest})
        if vocabulary is not None and (missing := sorted(set(languages) - set(vocabulary.languages))):
            raise ValueError(
                f"`vocabulary` has no token for {', '.join(missing)} (it has {', '.join(vocabulary.languages)}). "
                "Make it from the training data, and leave other languages out."
            )
        if group_numbers is None:
            group_numbers = manifest.groups(names=vocabulary.languages if vocabulary else None).numbers
        numbers = np.asarray(group_numbers)
        if numbers.shape != (len(manifest),) or not np.issubdtype(numbers.dtype, np.integer):
            raise ValueError(
                f"`group_numbers` must be a whole number for each of {len(manifest):,} utterances; got shape "
                f"{numbers.shape} of {numbers.dtype}. `manifest.groups().numbers` has them."
            )
        self.vocabulary = vocabulary
        self.on_fault = on_fault
        self.min_duration = min_duration
        self.max_duration = max_duration
        self.sample_rate = sample_rate
        # Arrays instead of utterances: a worker process shares the memory of its parent until one of them writes to it,
        # and to look at a Python object is to write its reference count. A million utterances would be copied into
        # every worker, little by little.
        self._paths = _Texts(utterance.audio_filepath for utterance in manifest)
        self._texts = _Texts(utterance.text if vocabulary is not None else "" for utterance in manifest)
        self._offsets = np.array([utterance.offset for utterance in manifest])
        self._durations = manifest.durations
        self._languages = languages
        self._language_of = np.searchsorted(languages, [utterance.lang for utterance in manifest])
        self._groups = numbers.astype(np.int64)
        self._manifest_path = manifest.path
        self._lines = np.array(manifest.lines, dtype=np.int64)

    def __len__(self) -> int:
        return len(self._durations)

    def __getitem__(self, index: int) -> Item | str:
        """The utterance; with `on_fault="skip"`, what is wrong with it."""
        index = range(len(self))[index]
        try:
            audio = self._read(index)
        except AudioError as error:
            message = f"{self._where(index)}: {error}"
            if self.on_fault == "skip":
                return message
            raise AudioError(message) from error
        labels: list[int] = []
        if self.vocabulary is not None:
            labels = self.vocabulary.encode(self._texts[index], self._languages[self._language_of[index]])
        return Item(audio, labels, int(self._groups[index]), int(index))

    def _read(self, index: int) -> Samples:
        path = self._paths[index]
        audio = read_audio(path, float(self._offsets[index]), float(self._durations[index]), self.sample_rate)
        duration = len(audio) / self.sample_rate
        for is_wrong, name, limit in (
            (duration < self.min_duration, "shorter than `min_duration`", self.min_duration),
            (duration > self.max_duration, "longer than `max_duration`", self.max_duration),
        ):
            if is_wrong:
                raise AudioError(
                    f"{path}: {duration:.3f} s of audio, {name}, {limit:g} s. Take it out of the manifest."
                )
        return audio

    def _where(self, index: int) -> str:
        return f"utterance {index}" if self._manifest_path is None else f"{self._manifest_path}:{self._lines[index]}"


class _Texts:
    """A sequence of texts as two arrays."""

    def __init__(self, texts: Iterable[str]) -> None:
        encoded = [text.encode("utf-8", "surrogatepass") for text in texts]  # as some names of files are
        self._bytes = np.frombuffer(b"".join(encoded), dtype=np.uint8)
        self._ends = np.cumsum([0, *map(len, encoded)])

    def __getitem__(self, index: int) -> str:
        start, stop = self._ends[index : index + 2]
        return self._bytes[start:stop].tobytes().decode("utf-8", "surrogatepass")


def collate(items: Sequence[Item | str]) -> Batch:
    """Pads utterances into one batch.

    Example:
        >>> long, short = np.ones(3, np.float32), np.ones(2, np.float32)
        >>> batch = collate([Item(long, [3, 5], 1, 7), Item(short, [3], 1, 9), "b.wav: an empty file."])
        >>> batch.audio
        tensor([[1., 1., 1.],
                [1., 1., 0.]])
        >>> batch.targets, batch.num_labels, batch.skipped
        (tensor([[3, 5],
                [3, 0]]), tensor([2, 1]), ['b.wav: an empty file.'])
    """
    skipped = [item for item in items if isinstance(item, str)]
    read = [item for item in items if isinstance(item, Item)]
    num_samples = [len(item.audio) for item in read]
    num_labels = [len(item.labels) for item in read]
    # Made by numpy: torch would have all its threads write the zeros, and wait for them where cores are busy.
    size = read[0].audio.shape[1:] if read else ()
    audio = np.zeros((len(read), max(num_samples, default=0), *size), dtype=np.float32)
    targets = np.zeros((len(read), max(num_labels, default=0)), dtype=np.int64)
    for row, item in enumerate(read):
        audio[row, : len(item.audio)] = item.audio
        targets[row, : len(item.labels)] = item.labels
    return Batch(
        torch.from_numpy(audio),
        torch.tensor(num_samples, dtype=torch.int64),
        torch.from_numpy(targets),
        torch.tensor(num_labels, dtype=torch.int64),
        torch.tensor([item.group for item in read], dtype=torch.int64),
        torch.tensor([item.number for item in read], dtype=torch.int64),
        skipped,
    )


class _Loader(DataLoader[Item | str]):
    """A `DataLoader` whose workers end at once when a fault stops the loop."""

    def __iter__(self) -> Iterator[Batch]:  # type: ignore[override]
        batches = super().__iter__()
        try:
            yield from batches
            return
        except (AudioError, ConnectionError, EOFError) as error:
            # The error refers to the frames that raised it, and they to the error. Left to the garbage collector,
            # workers would live on, and at some later moment the program would wait for each of them for seconds.
            traceback.clear_frames(error.__traceback__)
            fault = AudioError(str(error)) if isinstance(error, AudioError) else ChildProcessError(WORKER_GONE)
        del batches
        raise fault


def load_batches(
    dataset: SpeechDataset,
    batch_sampler: Iterable[list[int]],
    num_workers: int = 0,
    *,
    prefetch_factor: int = 2,
    pin_memory: bool = False,
) -> DataLoader[Item | str]:
    """A `DataLoader` that gives a `Batch` for each list of utterances.

    With workers, up to `num_workers * prefetch_factor` batches are read ahead, and that is all the memory it takes: a
    batch of 50 s is 3.2 MB. A sampler has then handed out more than the loop has seen; pass the number that the loop
    has worked through to its `state_dict`. Workers end with the iteration, also when the loop is left early.

    Args:
        dataset: what to read.
        batch_sampler: gives the utterances of each batch, as `LengthMatchedBatchSampler`.
        num_workers: processes that read; with 0 this process does.
        prefetch_factor: batches that each worker reads ahead.
        pin_memory: whether to put tensors where a GPU can fetch them while the host goes on.

    Returns:
        An iterable of `Batch`.

    Example:
        >>> import tempfile, soundfile
        >>> from ctcdro import CTCDROLoss, Utterance
        >>> criterion = CTCDROLoss(num_groups=1, step_size=1e-4, smoothing=0.1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     soundfile.write(f"{folder}/a.wav", np.zeros(16_000), 16_000)
        ...     manifest = Manifest([Utterance(f"{folder}/a.wav", duration=1.0, text="ano", lang="ces")])
        ...     vocabulary = Vocabulary.of(["ano"], ["ces"])
        ...     for batch in load_batches(SpeechDataset(manifest, vocabulary), batch_sampler=[[0]]):
        ...         num_frames = batch.num_samples // 320  # what a model makes of them
        ...         log_probs = torch.zeros(num_frames.max(), batch.num_utterances, len(vocabulary)).log_softmax(-1)
        ...         criterion(log_probs, batch.targets, num_frames, batch.num_labels, batch.groups)
        tensor(76.5326)
    """
    return _Loader(
        dataset,
        batch_sampler=batch_sampler,
        collate_fn=collate,
        num_workers=num_workers,
        prefetch_factor=prefetch_factor if num_workers else None,
        pin_memory=pin_memory,
        # Every iterator draws a seed for its workers. Drawn from the global generator, it would shift the random
        # numbers of training whenever an iterator is created: in a resumed run, in the middle of an epoch.
        generator=torch.Generator(),
        worker_init_fn=_heed_the_parent_alone,
    )


def _heed_the_parent_alone(worker: int) -> None:
    """In a worker: a signal to stop that reaches all processes, as of `timeout` or a cluster, is not for it.

    The loop may have to finish a step and needs batches for it. What comes from the parent ends the worker.
    """
    if not hasattr(signal, "sigwaitinfo"):  # macOS
        return
    parent, stops = os.getppid(), {signal.SIGINT, signal.SIGTERM, signal.SIGUSR2}
    signal.pthread_sigmask(signal.SIG_BLOCK, stops)

    def wait() -> None:
        while True:
            came = signal.sigwaitinfo(stops)
            if came.si_signo == signal.SIGTERM and came.si_pid == parent:
                os._exit(0)

    threading.Thread(target=wait, daemon=True).start()
