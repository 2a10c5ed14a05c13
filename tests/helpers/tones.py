"""Artificial speech with one tone per letter, which a small model learns in seconds."""

import numpy as np
import soundfile

from ctcdro import Manifest, Utterance

RATE = 16_000
SECONDS_A_LETTER = 0.12
LETTERS = {"aaa": "abcd", "bbb": "efgh", "ccc": "ijkl"}


def write_dataset(folder, languages=("aaa", "bbb"), num_train=24, num_dev=4, seed=0):
    """Writes a dataset of such languages, with train, dev and test."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    for split, number in {"train": num_train, "dev": num_dev, "test": num_dev}.items():
        utterances = []
        for place, language in enumerate(languages):
            for index in range(number):
                text = "".join(rng.choice(list(LETTERS[language]), size=rng.integers(3, 8) + 2 * place))
                path = folder / f"{language}-{split}-{index}.wav"
                soundfile.write(path, spoken(text, rng), RATE)
                duration = soundfile.info(path).duration
                utterances.append(Utterance(str(path), duration, text, language, id=path.stem))
        Manifest(utterances).write(folder / f"{split}.jsonl")
    return folder


def spoken(text, rng):
    letters = "".join(LETTERS.values())
    time = np.arange(round(SECONDS_A_LETTER * RATE)) / RATE
    gap = np.zeros(round(0.04 * RATE))
    tones = [np.concatenate([np.sin(2 * np.pi * (300 + 220 * letters.index(one)) * time), gap]) for one in text]
    samples = np.concatenate([gap, *tones])
    return 0.3 * samples + 0.01 * rng.standard_normal(len(samples))
