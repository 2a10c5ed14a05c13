"""Clusters: planted ones are found with their number, outliers are not, and the loss counts."""

import numpy as np
import pytest

from ctcdro.grouping.clustering import Projection, agreement, find_clusters, map_to_plane
from ctcdro.grouping.embedding import Embeddings

CENTERS = np.array([[0.0, 0, 0], [9, 0, 0], [0, 9, 0], [0, 0, 9]])
SIZES = [40, 60, 80, 30]


def planted(sizes=SIZES, seed=0):
    """Points around the centers, in random order, and the center of each."""
    rng = np.random.default_rng(seed)
    numbers = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    return CENTERS[numbers] + rng.standard_normal((len(numbers), 3)), numbers


def embeddings(features, losses=None):
    return Embeddings(np.asarray(features), losses, np.zeros(len(features)))


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("num_groups", [None, 4])
def test_planted_groups_are_found_the_largest_first(soft, num_groups):
    points, numbers = planted()
    clusters = find_clusters(points, num_groups, soft=soft)
    shares = clusters.shares(points)
    assert agreement(shares.argmax(1), list(map(str, numbers))) == 1.0
    assert np.bincount(shares.argmax(1)).tolist() == sorted(SIZES, reverse=True)
    assert (clusters.silhouettes == {}) == (num_groups is not None)
    np.testing.assert_allclose(shares.sum(1), 1.0)


def test_the_same_seed_gives_the_same_groups_and_the_same_map():
    points, _ = planted()
    first, second = (find_clusters(points[:60], 5, soft=True, seed=3).shares(points) for _ in range(2))
    assert np.array_equal(first, second)
    assert np.array_equal(map_to_plane(points[:60], 1), map_to_plane(points[:60], 1))


def test_a_point_between_two_centers_has_a_share_in_both():
    points, _ = planted()
    [row] = find_clusters(points, 4, soft=True).shares(np.array([[4.5, 0.0, 0.0]]))
    assert sum(share > 0 for share in row) >= 2
    assert find_clusters(points, 4).shares(np.array([[4.5, 0.0, 0.0]])).max() == 1.0


def test_a_number_of_groups_that_isolates_outliers_is_not_chosen():
    points, _ = planted([100, 100])
    points[:2] += 200
    assert len(find_clusters(points, 3).order) == 3
    with pytest.raises(ValueError, match=r"gives a group of outliers\. Choose one with --num-groups"):
        find_clusters(points)
    assert len(find_clusters(points[2:]).order) == 2


def test_the_loss_separates_utterances_with_equal_features():
    rng = np.random.default_rng(0)
    numbers = rng.integers(2, size=200)
    losses = np.where(numbers == 1, 3.0, 0.5) + 0.1 * rng.standard_normal(200)
    losses[0] = np.inf if numbers[0] else losses[0]  # a text that does not fit counts as hard
    features = rng.standard_normal((200, 12))
    found = {}
    for name, given in {"with": losses, "without": None}.items():
        points = Projection(embeddings(features, given), 0)(embeddings(features, given))
        found[name] = agreement(find_clusters(points, 2).shares(points).argmax(1), list(map(str, numbers)))
    assert found["with"] > 0.9
    assert found["without"] < 0.1


def test_the_projection_is_that_of_the_training_data():
    train, _ = planted()
    projection = Projection(embeddings(train), 0)
    [alone] = projection(embeddings(train[:1]))
    np.testing.assert_allclose(alone, projection(embeddings(train))[0])


def test_the_scale_of_a_dimension_does_not_matter():
    points, _ = planted()
    scaled = points * [1.0, 1e4, 1e-4] + 7
    first, second = (np.abs(Projection(embeddings(one), 0)(embeddings(one))) for one in (points, scaled))
    np.testing.assert_allclose(first, second, atol=1e-6)


@pytest.mark.parametrize("num_groups", [1, 106, -1])
def test_numbers_of_groups_that_do_not_fit_are_rejected(num_groups):
    with pytest.raises(ValueError, match="between 2 and half of the 210 training utterances; got"):
        find_clusters(planted()[0], num_groups)


def test_a_run_without_finite_losses_is_rejected():
    with pytest.raises(ValueError, match="no finite loss"):
        Projection(embeddings(planted()[0], np.full(210, np.inf)), 0)
