"""Clusters of feature vectors, with scikit-learn: k-means, or a Gaussian mixture for shares in several groups.

Features are standardized and reduced to principal components. scikit-learn uses one thread, so that the same features
and the same seed give the same groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..runtime.extras import extra
from .embedding import Embeddings, Floats

with extra("groups", "Finding groups"):
    from sklearn.cluster import KMeans
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE
    from sklearn.metrics import adjusted_rand_score, silhouette_score
    from sklearn.mixture import GaussianMixture
    from threadpoolctl import threadpool_limits

MAX_COMPONENTS = 20
MAX_GROUPS = 12
"""Numbers of groups to try are 2 to this."""
SMALLEST_SHARE = 0.02
"""Of the utterances. A number of groups with a smaller group is not chosen: it found outliers."""
MAX_POINTS = 2000
"""Utterances for silhouettes and on the map; others are not drawn."""
NEGLIGIBLE = 0.01
"""Shares below it are omitted."""


class Projection:
    """Embeddings -> (n, P) principal components, followed by the loss. Fitted on the training data."""

    def __init__(self, embeddings: Embeddings, seed: int) -> None:
        features = embeddings.features
        self._mean, scale = features.mean(0), features.std(0)
        self._scale = np.where(scale > 1e-9, scale, 1.0)  # a constant dimension, such as an empty frequency band
        num_components = min(MAX_COMPONENTS, *features.shape)
        with threadpool_limits(1):
            self._pca = PCA(num_components, random_state=seed).fit(self._standardized(features))
        self._worst_loss, self._loss_mean, self._loss_scale = 0.0, 0.0, 1.0
        if embeddings.losses is not None:
            finite = embeddings.losses[np.isfinite(embeddings.losses)]
            if not len(finite):
                raise ValueError("The run has no finite loss on the training data. Choose another run.")
            self._worst_loss, self._loss_mean = finite.max(), finite.mean()
            # As important as the first principal component.
            self._loss_scale = np.sqrt(self._pca.explained_variance_[0]) / max(finite.std(), 1e-9)

    def __call__(self, embeddings: Embeddings) -> Floats:
        with threadpool_limits(1):
            points = self._pca.transform(self._standardized(embeddings.features))
        if embeddings.losses is None:
            return points
        losses = np.where(np.isfinite(embeddings.losses), embeddings.losses, self._worst_loss)
        return np.column_stack([points, (losses - self._loss_mean) * self._loss_scale])

    def _standardized(self, features: Floats) -> Floats:
        return (features - self._mean) / self._scale


@dataclass(frozen=True)
class Clusters:
    """Clusters of n training points. Create them with `find_clusters`."""

    model: Any
    order: npt.NDArray[np.int64]
    """(K,) numbers of the model's clusters, the largest cluster first."""
    silhouettes: dict[int, float]
    """Silhouette of each number of groups that was tried, and is allowed."""

    def shares(self, points: Floats) -> Floats:
        """(n, P) points -> (n, K) shares of groups, which are 0 and 1 with k-means."""
        with threadpool_limits(1):
            if isinstance(self.model, KMeans):
                return np.eye(len(self.order))[self.model.predict(points)][:, self.order]
            shares = self.model.predict_proba(points)[:, self.order]
        shares = np.where(shares < NEGLIGIBLE, 0.0, shares)
        return shares / shares.sum(1, keepdims=True)

    def distances(self, points: Floats) -> Floats:
        """(n, K) Euclidean distances to the centers."""
        centers = self.model.cluster_centers_ if isinstance(self.model, KMeans) else self.model.means_
        return np.linalg.norm(points[:, None] - centers[self.order][None], axis=2)


def find_clusters(points: Floats, num_groups: int | None = None, *, soft: bool = False, seed: int = 0) -> Clusters:
    """Clusters points by k-means; with `soft`, by a Gaussian mixture.

    Args:
        points: (n, P).
        num_groups: by default, the number up to `MAX_GROUPS` with the highest silhouette, among those without a group
            of less than 2% of the points.

    Raises:
        ValueError: if there are too few points.

    Example:
        >>> points = np.repeat(np.eye(3), 10, axis=0) + np.random.default_rng(0).normal(0, 0.01, (30, 3))
        >>> clusters = find_clusters(points)
        >>> clusters.shares(points)[::10].sum(0)
        array([1., 1., 1.])
    """
    if num_groups is not None and not 2 <= num_groups <= len(points) // 2:
        raise ValueError(
            f"--num-groups (`num_groups` in Python) must be between 2 and half of the {len(points):,} training "
            f"utterances; got {num_groups}."
        )
    if len(points) < 4:
        raise ValueError(f"Groups need at least 4 training utterances; the dataset has {len(points)}.")
    with threadpool_limits(1):
        if num_groups is not None:
            return _ordered(_fit(points, num_groups, soft, seed), points, {})
        tried: dict[int, tuple[float, Any]] = {}
        for number in range(2, min(MAX_GROUPS, len(points) // 2) + 1):
            model = _fit(points, number, soft, seed)
            numbers = model.predict(points)
            sizes = np.bincount(numbers, minlength=number)
            if sizes.min() >= max(2, SMALLEST_SHARE * len(points)):
                tried[number] = (_silhouette(points, numbers, seed), model)
        if not tried:
            raise ValueError("Every number of groups gives a group of outliers. Choose one with --num-groups.")
        best = max(tried, key=lambda number: tried[number][0])
        return _ordered(tried[best][1], points, {number: score for number, (score, _) in tried.items()})


def _fit(points: Floats, num_groups: int, soft: bool, seed: int) -> Any:
    if soft:
        return GaussianMixture(num_groups, covariance_type="diag", n_init=5, random_state=seed).fit(points)
    return KMeans(num_groups, n_init=10, random_state=seed).fit(points)


def _ordered(model: Any, points: Floats, silhouettes: dict[int, float]) -> Clusters:
    num_groups = len(model.cluster_centers_ if isinstance(model, KMeans) else model.means_)
    sizes = np.bincount(model.predict(points), minlength=num_groups)
    if not sizes.all():
        raise ValueError(f"--num-groups {num_groups}: a group is never the most likely one. Choose a smaller number.")
    return Clusters(model, np.argsort(-sizes, kind="stable"), silhouettes)


def _silhouette(points: Floats, numbers: npt.NDArray[np.int64], seed: int) -> float:
    """The silhouette of a sample of the points, or 0 if the sample has only one group."""
    chosen = sample(len(points), seed)
    if len(np.unique(numbers[chosen])) < 2:
        return 0.0
    return float(silhouette_score(points[chosen], numbers[chosen]))


def sample(num_points: int, seed: int) -> npt.NDArray[np.int64]:
    """At most `MAX_POINTS` positions, sorted."""
    if num_points <= MAX_POINTS:
        return np.arange(num_points)
    return np.sort(np.random.default_rng(seed).choice(num_points, MAX_POINTS, replace=False))


def map_to_plane(points: Floats, seed: int) -> Floats:
    """(n, P) -> (n, 2): close points stay close, by t-SNE."""
    with threadpool_limits(1):
        plane = TSNE(perplexity=min(30.0, (len(points) - 1) / 3), init="pca", random_state=seed)
        return plane.fit_transform(points).astype(np.float64)


def agreement(numbers: npt.NDArray[np.int64], labels: list[str]) -> float:
    """The adjusted Rand index: 1 for the same partition, about 0 for independent ones."""
    return float(adjusted_rand_score(labels, numbers))
