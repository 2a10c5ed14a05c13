"""Finds groups in a dataset, and writes a copy of its manifests with a field `group`.

Features, clusters and the number of groups are fitted on the training data only. Utterances of dev and test get the
groups that the fitted clusters predict for them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..runtime.devices import select_device
from ..runtime.extras import extra
from ..runtime.progress import Track, untracked
from ..storage.locks import lock_folder
from ..storage.paths import PathLike

with extra("groups", "Finding groups"):
    from ..prepare.dataset_folder import refuse_other_dataset, write_dataset
    from ..prepare.entries import SPLITS
    from ..speech.dataset import check_audio_exists
    from ..speech.manifest import Manifest
    from ..speech.shards.layout import refuse_shards
    from .clustering import Projection, find_clusters
    from .description import GROUP, FoundGroups, describe_groups, group_names
    from .embedding import Encoder, Floats, TrainedRun, embed, load_encoder, load_run


def find_groups(
    dataset: PathLike,
    out: PathLike,
    *,
    encoder: str | None = None,
    run: PathLike | None = None,
    num_groups: int | None = None,
    soft: bool = False,
    layers: Sequence[int] | None = None,
    seed: int = 0,
    overwrite: bool = False,
    device: str = "auto",
    num_workers: int = 0,
    track: Track = untracked,
) -> FoundGroups:
    """Finds groups of utterances, and writes the dataset with a field `group` to another folder. Audio is not copied.

    Args:
        encoder: a checkpoint of `transformers`, a run, or `mel-small` for log-mel energies; by default, that of `run`.
        run: a finished run, whose losses on the utterances are part of the features.
        num_groups: by default, the number with the highest silhouette.
        soft: whether an utterance may belong to several groups, with shares.
        layers: layers of the encoder, counted from the end if negative; by default, the middle one.
        overwrite: whether to replace a dataset in `out` that was made with other options.

    Raises:
        ValueError: if options are missing or do not fit the data, or `out` contains another dataset.
    """
    if Path(out).exists() and os.path.samefile(dataset, out):
        raise ValueError(f"--out {out} is the dataset itself. Choose another folder.")
    manifests = _read_manifests(Path(dataset))
    about = _about(dataset, encoder, run, num_groups, soft, layers, seed)
    with lock_folder(out):
        refuse_other_dataset(out, about, overwrite)
        loaded_encoder, loaded_run = _load(encoder, run)
        embeddings = {
            split: embed(
                manifest,
                loaded_encoder,
                loaded_run,
                layers,
                device=select_device(device),
                num_workers=num_workers,
                track=track,
            )
            for split, manifest in manifests.items()
        }
        projection = Projection(embeddings["train"], seed)
        points = {split: projection(found) for split, found in embeddings.items()}
        clusters = find_clusters(points["train"], num_groups, soft=soft, seed=seed)
        labeled = {
            split: _with_groups(manifest, clusters.shares(points[split])) for split, manifest in manifests.items()
        }
        write_dataset(out, about, labeled)
    return describe_groups(labeled["train"], embeddings["train"], points["train"], clusters, seed)


def _load(encoder: str | None, run: PathLike | None) -> tuple[Encoder, TrainedRun | None]:
    loaded_run = None if run is None else load_run(os.fspath(run))
    if encoder is not None:
        return load_encoder(encoder), loaded_run
    if loaded_run is None:
        raise ValueError("Specify --encoder, a checkpoint or mel-small, or --run, the folder of a finished run.")
    return loaded_run.recognizer.encoder, loaded_run


def _read_manifests(folder: Path) -> dict[str, Manifest]:
    refuse_shards(folder, "ctcdro groups")
    paths = {split: folder / f"{split}.jsonl" for split in SPLITS}
    if not paths["train"].is_file():
        raise ValueError(f"{paths['train']}: no such file. Create the dataset with `ctcdro prepare`.")
    manifests = {split: Manifest.read(path) for split, path in paths.items() if path.is_file()}
    check_audio_exists(manifests.values())
    return manifests


def _about(
    dataset: PathLike,
    encoder: str | None,
    run: PathLike | None,
    num_groups: int | None,
    soft: bool,
    layers: Sequence[int] | None,
    seed: int,
) -> dict[str, Any]:
    """What dataset.json says: everything that the groups depend on."""
    return {
        "reader": "groups",
        "dataset": os.path.abspath(dataset),
        "encoder": os.path.abspath(encoder) if encoder and os.path.isdir(encoder) else encoder,
        "run": None if run is None else os.path.abspath(run),
        "num_groups": num_groups,
        "soft": soft,
        "layers": None if layers is None else list(layers),
        "seed": seed,
    }


def _with_groups(manifest: Manifest, shares: Floats) -> Manifest:
    """The utterances with a group, or with shares of several."""
    names = group_names(shares.shape[1])
    rows = (
        {name: round(float(share), 4) for name, share in zip(names, row, strict=True) if share > 0} for row in shares
    )
    return Manifest(
        replace(one, extra={**one.extra, GROUP: next(iter(row)) if len(row) == 1 else row})
        for one, row in zip(manifest, rows, strict=True)
    )
