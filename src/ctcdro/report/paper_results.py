"""Results that the paper reports on its sets, in percent, for comparison with runs.

CER per language, their mean, and language accuracy, on the test data of ML-SUPERB 2.0; one seed each. The authors'
scoring is our profile `paper`. Step size and smoothing are those that the paper selects on development data. `SOURCES`
has the label of each set's table in the paper's source.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..prepare.readers.ml_superb_sets import SETS

MODELS = {"facebook/mms-300m": "MMS", "facebook/wav2vec2-xls-r-300m": "XLS-R"}
"""The paper's names of encoders."""

_OBJECTIVES = {"Base": "erm", "GDRO": "group-dro", "Ours": "ctc-dro"}


@dataclass(frozen=True, slots=True)
class PaperResult:
    """A row of the paper's tables."""

    model: str
    objective: str
    step_size: float | None
    smoothing: float | None
    cer: dict[str, float]
    """By language, in percent."""
    mean: float
    lid: float

    @property
    def worst(self) -> tuple[str, float]:
        """The worst language and its CER."""
        return max(self.cer.items(), key=lambda item: item[1])


def paper_results(set_name: str, encoder: str | None = None) -> list[PaperResult]:
    """The rows of a set: those of the encoder if the paper has it, otherwise all.

    Example:
        >>> for row in paper_results("set5", "facebook/wav2vec2-xls-r-300m"):
        ...     print(row.objective, row.step_size, row.smoothing, row.worst, row.mean, row.lid)
        erm None None ('jpn', 114.8) 29.9 89.0
        group-dro 0.0001 None ('jpn', 92.9) 36.8 57.7
        ctc-dro 0.0001 0.1 ('jpn', 71.5) 23.8 91.0
    """
    header, *lines = (line.split() for line in _TABLES[set_name].strip().splitlines())
    rows = []
    for model, kind, *settings_and_rates in lines:
        settings = (None if number == "-" else float(number) for number in settings_and_rates[:2])
        *cers, mean, lid = map(float, settings_and_rates[2:])
        cer = dict(zip(header[:-2], cers, strict=True))
        rows.append(PaperResult(model, _OBJECTIVES[kind], *settings, cer, mean, lid))
    return [row for row in rows if row.model == MODELS.get(encoder or "")] or rows


def find_set(pairs: frozenset[tuple[str, str | None]]) -> str | None:
    """The paper's set that has exactly these languages and corpora.

    Example:
        >>> find_set(frozenset(SETS["set3"])), find_set(frozenset({("ces", "synthetic")}))
        ('set3', None)
    """
    # The paper has one name for both folders of Googlei18n.
    merged = {
        (language, "googlei18n" if corpus and corpus.startswith("googlei18n") else corpus) for language, corpus in pairs
    }
    return next((name for name, own in SETS.items() if merged == set(own)), None)


SOURCES = {
    **{f"set{number}": "tab:results-ft, tab:results-ft-full" for number in range(1, 6)},
    **{f"set{number}-extra": "tab:results-ft-extra, tab:results-ft-extra-full" for number in (1, 2)},
    "scale18": "tab:scale-test; tab:scale-dev",
    "scale18-extra": "tab:scale-test-extra; tab:scale-dev-extra",
}

# Per set: languages, mean and LID; then per row: model, method, step size, smoothing, and the rates.
# fmt: off
_TABLES = {
    "set1": """
                       ces   cmn   nan   pol   ron   spa  mean   LID
MMS   Base -    -      8.4  52.4  60.8   3.6  13.3   1.8  23.4  97.4
MMS   GDRO 1e-4 -     20.6  48.6  86.6   4.3  16.7   6.2  30.5  78.7
MMS   Ours 1e-4 1.0   10.5  46.1  56.8   3.7  17.9   2.3  22.9  95.8
XLS-R Base -    -      7.3  64.9  60.8   3.1  13.4   1.8  25.2  92.6
XLS-R GDRO 1e-4 -     27.4  48.9  78.4   3.7  14.9   6.6  30.0  87.8
XLS-R Ours 1e-4 0.1    7.8  50.7  57.6   3.0  14.2   1.8  22.5  89.5
""",
    "set2": """
                       eng   fas   hrv   ita   slk   yue  mean   LID
MMS   Base -    -      0.2  21.8   9.0   5.9   8.2  49.4  15.8  98.4
MMS   GDRO 1e-4 -     11.8  29.7  10.8   6.2  10.2  55.5  20.7  98.2
MMS   Ours 1e-3 0.5    0.5  22.1   8.8   5.5   8.6  44.4  15.0  96.2
XLS-R Base -    -      0.1  20.6  10.9   4.6   8.9  68.8  19.0  94.2
XLS-R GDRO 1e-4 -     12.7  28.5  14.4   5.1  10.2  58.8  21.6  87.0
XLS-R Ours 1e-4 0.5    0.5  21.5  12.6   5.2  10.0  45.0  15.8  89.3
""",
    "set3": """
                       khm   kmr   kor   nbl   nno   tat  mean   LID
MMS   Base -    -     31.3  12.2  34.2   7.4   2.5   9.0  16.1  98.5
MMS   GDRO 1e-4 -     33.2  19.1  34.0  22.4   9.8  13.5  22.0  98.7
MMS   Ours 1e-4 0.1   31.3  12.0  27.6   8.1   2.3  10.2  15.3  98.7
XLS-R Base -    -     33.2  13.3  32.3   8.7   3.7  11.0  17.0  99.2
XLS-R GDRO 1e-4 -     38.0  23.9  35.5  26.6  11.9  14.9  25.1  97.2
XLS-R Ours 1e-4 0.1   32.2  14.8  31.9  10.1   5.0  12.0  17.7  97.9
""",
    "set4": """
                       mrj   slv   snd   sot   spa   urd  mean   LID
MMS   Base -    -     14.8   6.9  24.0  14.4   5.9  20.1  14.4  87.9
MMS   GDRO 1e-4 -     13.1  14.4  19.0  17.1   3.8  21.8  14.9  91.9
MMS   Ours 1e-3 0.5   17.7   8.1  17.5  11.4   4.4  18.4  12.9  87.3
XLS-R Base -    -     14.0   4.8  23.3  11.6   4.2  29.7  14.6  88.4
XLS-R GDRO 1e-3 -     19.5  25.6  18.5  23.0   3.9  21.1  18.6  83.5
XLS-R Ours 1e-3 0.1   11.9   6.7  21.0  13.8   4.8  24.2  13.7  88.9
""",
    "set5": """
                       deu   eng   heb   jpn   rus   spa  mean   LID
MMS   Base -    -      5.4  11.1  30.2  90.0  12.0   7.2  26.0  96.3
MMS   GDRO 1e-4 -     27.6  27.0  32.6  62.2  17.6   8.4  29.2  67.0
MMS   Ours 1e-3 1.0   10.9  15.4  39.2  57.5  13.2   9.3  24.3  90.5
XLS-R Base -    -      4.8   9.2  33.2 114.8  10.5   7.1  29.9  89.0
XLS-R GDRO 1e-4 -     29.1  26.8  46.1  92.9  16.5   9.3  36.8  57.7
XLS-R Ours 1e-4 0.1    5.7   9.6  38.6  71.5  10.1   7.3  23.8  91.0
""",
    "set1-extra": """
                       ces   cmn   nan   pol   ron   spa  mean   LID
MMS   Base -    -      9.1  58.9  67.5   6.0   7.1   5.0  25.6  98.1
MMS   GDRO 1e-4 -     13.8  92.1  96.3   6.7  11.9   5.8  37.8  83.9
MMS   Ours 1e-4 0.5    8.7  45.9  62.8   6.2   7.5   5.3  22.8  98.5
XLS-R Base -    -     13.0  92.1  78.3   9.8  12.0   8.5  35.6  96.4
XLS-R GDRO 1e-4 -     18.9  86.4  90.8   5.7  21.6   5.0  38.1  72.3
XLS-R Ours 1e-4 1.0   12.9  52.5  67.5   9.0  11.9   7.8  26.9  97.1
""",
    "set2-extra": """
                       eng   fas   hrv   ita   slk   yue  mean   LID
MMS   Base -    -      9.6  16.9   8.5   6.8   8.0  66.9  19.5  99.0
MMS   GDRO 1e-3 -     10.1  70.0  24.3   7.9  14.8 105.4  38.8  81.0
MMS   Ours 1e-4 1.0    9.7  18.1   8.3   6.6   7.3  48.1  16.4  99.1
XLS-R Base -    -     11.9  32.2   9.6   8.1   9.2  97.2  28.0  98.2
XLS-R GDRO 1e-4 -      8.8  88.2  33.9   6.7  23.3 102.9  44.0  80.8
XLS-R Ours 1e-4 1.0   11.6  23.2   9.3   8.2   8.9  51.4  18.8  98.6
""",
    "scale18": """
                     bak  ces  cmn  deu  eng  fas  fra  grn  ita  khm  mya  nan  pol  ron  rus  spa  ssw  yue mean  LID
MMS   Base -    -   12.6 10.3 65.2  5.6  0.8 23.5 14.4  6.4  5.5 34.0 35.3 66.1  3.7 14.0  5.1  2.1  6.3 47.5 19.9 96.5
MMS   Ours 1e-3 0.5 14.9 13.4 55.6  8.2  0.8 25.2 16.5 11.0  6.9 33.8 40.6 60.2  4.3 16.9  1.6  3.2 13.1 43.2 20.5 94.7
XLS-R Base -    -   30.4 28.8 94.9 22.0  2.7 45.4 37.0 31.8 24.3 67.7 91.6 81.7 15.6 38.0  7.3 13.4 14.3 74.7 40.1 84.0
XLS-R Ours 1e-3 1.0 23.7 22.2 78.8 13.9  5.2 34.0 20.6 21.9 12.4 86.2 61.6 78.4  7.3 23.3 12.0  7.5 19.1 69.2 33.2 84.9
""",
    "scale18-extra": """
                     bak  ces  cmn  deu  eng  fas  fra  grn  ita  khm  mya  nan  pol  ron  rus  spa  ssw  yue mean  LID
MMS   Base -    -   13.0  8.6 60.7  8.8  9.4 18.1 12.9  6.7  7.8 37.1 30.8 70.6  6.2  7.5  9.4  5.1  5.5 53.0 20.6 97.6
MMS   Ours 1e-3 0.5 14.3 10.3 48.1  9.5 10.7 18.5 13.4 12.8  7.7 32.0 28.6 70.0  6.9  8.7  9.7  5.6 16.6 51.3 20.8 97.6
XLS-R Base -    -   14.3  8.6 75.7  8.4  9.3 17.1 12.5  9.4  6.8 68.5 95.5 75.3  6.3  7.7  8.7  5.1  7.5 70.8 28.2 96.2
XLS-R Ours 1e-3 1.0 21.6 11.3 56.3 10.2 12.3 22.2 14.8 21.1  8.6 40.7 44.1 72.9  7.9 10.5 12.7  6.3 26.4 56.7 25.4 95.2
""",
}
# fmt: on
