"""Independent counts of edits, by the textbook and by NIST's sclite if it is installed, and texts to count them in."""

import random
import re
import shutil
import subprocess

SCLITE = shutil.which("sclite") or shutil.which("sclite", path="/usr/lib/sctk/bin")

# Letters with and without combining marks, right to left, without spaces, outside the basic plane.
SCRIPTS = [
    "abcdefg",
    "áéíčřžý",
    "e\u0301\u0308\u0327o",
    "абвгдёй",
    "שלום\u05b8\u05b7",
    "السلام\u064b\u0651",
    "नमस्ते",
    "ก็ได้ครับ",
    "你好吗世界",
    "안녕하세요",
    "ꦗꦮ𐎠𐎡𝒜😀",
]


def edit_distance(reference, hypothesis):
    """The textbook algorithm, one row of the table at a time."""
    row = list(range(len(hypothesis) + 1))
    for i, expected in enumerate(reference, start=1):
        diagonal, row[0] = row[0], i
        for j, found in enumerate(hypothesis, start=1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (expected != found))
    return row[-1]


def corrupt(generator, symbols, alphabet, rate):
    """Symbols, of which some are replaced, dropped or followed by another."""
    found = []
    for symbol in symbols:
        draw = generator.random()
        if draw >= rate:
            found.append(symbol)
        elif draw > rate * 0.6:
            found.append(generator.choice(alphabet))
        elif draw > rate * 0.3:
            found += [symbol, generator.choice(alphabet)]
    return found


def random_texts(number, seed=0):
    """Pairs of texts of one to eight words, in many scripts; some are empty."""
    generator = random.Random(seed)
    for _ in range(number):
        alphabet = [*generator.choice(SCRIPTS), " "]
        reference = [generator.choice(alphabet) for _ in range(generator.choice([0, 1, 5, 20, 40]))]
        hypothesis = corrupt(generator, reference, alphabet, generator.random())
        yield tuple(" ".join("".join(text).split()) for text in (reference, hypothesis))


def run_sclite(folder, references, hypotheses):
    """Substitutions, deletions and insertions by sclite of each pair of sequences, and the Err that it prints."""
    for name, sequences in (("ref", references), ("hyp", hypotheses)):
        lines = (f"{' '.join(symbols)} (u{number}-u{number})\n" for number, symbols in enumerate(sequences))
        (folder / f"{name}.trn").write_text("".join(lines), encoding="utf-8")

    def run(report):
        command = [SCLITE, "-r", "ref.trn", "trn", "-h", "hyp.trn", "trn", "-i", "rm", "-o", report, "stdout"]
        done = subprocess.run(command, cwd=folder, capture_output=True, check=True)
        return done.stdout.decode("utf-8", errors="replace")

    aligned = run("pra")
    ids = re.findall(r"id: \(u(\d+)-u", aligned)
    counts = re.findall(r"Scores: \(#C #S #D #I\) \d+ (\d+) (\d+) (\d+)", aligned)
    percents = re.findall(r"\| u(\d+) +\| +1 +\d+ \|(?: *[\d.]+ ){4} *([\d.]+) ", run("sum"))
    return (
        {int(number): tuple(map(int, found)) for number, found in zip(ids, counts, strict=True)},
        {int(number): float(percent) for number, percent in percents},
    )
