"""A figure of the probability of each label over time, as the model outputs them before decoding."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from ..report.figures import COLORS, WIDTH, ReportFigure, figure_style
from ..speech.vocabulary import BLANK, UNKNOWN, WORD_SPACE, Vocabulary

# A label is drawn if its probability reaches this value in some frame.
MIN_PROBABILITY = 0.1
MAX_LABELS = 40

SHOWN = {BLANK: "blank", UNKNOWN: "unknown", WORD_SPACE: "space"}


def select_labels(probabilities: npt.NDArray[np.float32]) -> list[int]:
    """The labels to draw, given (F, V) probabilities: those with the most mass, in the order of their peaks.

    The blank, which is label 0, is always first.
    """
    others = 1 + np.flatnonzero(probabilities[:, 1:].max(0) >= MIN_PROBABILITY)
    heaviest = others[np.argsort(-probabilities[:, others].sum(0), kind="stable")[:MAX_LABELS]]
    peaks = probabilities[:, heaviest].argmax(0)
    return [0, *heaviest[np.argsort(peaks, kind="stable")].tolist()]


def posteriorgram(
    log_probs: npt.NDArray[np.float32],
    times: npt.NDArray[np.float64],
    frame_seconds: float,
    vocabulary: Vocabulary,
    name: str,
) -> ReportFigure:
    """Draws (F, V) log probabilities of frames centered at `times`, in seconds."""
    probabilities = np.exp(log_probs)
    labels = select_labels(probabilities)
    drawn = probabilities[:, labels].T
    # Opacity shows the probability, so that the figure fits a light and a dark page.
    image = np.empty((*drawn.shape, 4), dtype=np.float32)
    image[..., :3] = to_rgb(COLORS[0])
    image[..., 3] = drawn
    start, end = times[0] - frame_seconds / 2, times[-1] + frame_seconds / 2
    with figure_style():
        figure = Figure((WIDTH, 0.6 + 0.16 * len(labels)))
        axes = figure.add_subplot()
        axes.imshow(
            image, aspect="auto", interpolation="none", extent=(start, end, len(labels) - 0.5, -0.5), origin="upper"
        )
        tokens = [vocabulary.tokens[label] for label in labels]
        axes.set_yticks(range(len(labels)), [SHOWN.get(token, token) for token in tokens])
        axes.tick_params(axis="y", length=0)
        axes.set(xlabel="seconds", xlim=(max(0.0, start), end))
    description = (
        f"Probability of {len(labels)} labels in {len(times):,} frames. Darker cells are more probable; labels are in "
        "the order of their peaks."
    )
    return ReportFigure(name, "Posteriorgram", description, figure)
