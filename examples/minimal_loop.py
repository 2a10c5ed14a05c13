"""A complete training loop in plain PyTorch with the loss and the sampler of CTC-DRO: python examples/minimal_loop.py

Three synthetic languages, each with its own symbols and noise. An utterance is a row of symbols, each spoken for a few
frames; the third language is the noisiest. The loop prints the weight of each language. On a busy machine, set
OMP_NUM_THREADS=1: threads do not speed up a model this small.
"""

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

import ctcdro

LANGUAGES, NOISE, NUM_SYMBOLS, FRAMES_PER_SECOND = ["clear", "plain", "noisy"], [0.2, 0.5, 0.9], 8, 25


def make_corpus(num_utterances: int, seed: int) -> list[tuple[torch.Tensor, torch.Tensor, int]]:
    rng = np.random.default_rng(seed)
    corpus = []
    for number in range(num_utterances):
        group = number % len(LANGUAGES)
        symbols = 1 + NUM_SYMBOLS * group + rng.integers(NUM_SYMBOLS, size=rng.integers(4, 20))
        spoken = np.repeat(symbols, rng.integers(3, 7, size=len(symbols)))
        noise = NOISE[group] * rng.standard_normal((len(spoken), 25))
        corpus.append((torch.tensor(np.eye(25)[spoken] + noise, dtype=torch.float32), torch.tensor(symbols), group))
    return corpus


def collate(utterances):
    frames, targets, groups = zip(*utterances, strict=True)
    lengths = torch.tensor([len(x) for x in frames]), torch.tensor([len(y) for y in targets])
    return pad_sequence(frames), pad_sequence(targets, batch_first=True), *lengths, torch.tensor(groups)


def main(num_epochs: int = 6) -> torch.Tensor:
    torch.manual_seed(0)
    corpus = make_corpus(900, seed=0)
    durations = [len(frames) / FRAMES_PER_SECOND for frames, _, _ in corpus]
    sampler = ctcdro.LengthMatchedBatchSampler(durations, [group for _, _, group in corpus], batch_duration=20.0)
    loader = DataLoader(corpus, batch_sampler=sampler, collate_fn=collate, generator=torch.Generator())
    layers = torch.nn.Linear(25, 64), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(64, 25)
    model = torch.nn.Sequential(*layers)
    criterion = ctcdro.CTCDROLoss(num_groups=len(LANGUAGES), step_size=1e-4, smoothing=0.5, group_names=LANGUAGES)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(num_epochs):
        sampler.set_epoch(epoch)
        for frames, targets, num_frames, num_targets, groups in loader:
            log_probs = model(frames).log_softmax(dim=-1)
            loss = criterion(log_probs, targets, num_frames, num_targets, groups)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}, weights:", *(f"{n} {w:.3f}" for n, w in zip(LANGUAGES, criterion.weights, strict=True)))
    return criterion.weights


if __name__ == "__main__":
    main()
