"""minimal_loop.py that resumes exactly, even in the middle of an epoch: python examples/resumable_loop.py [folder]

`StatefulDataLoader` of torchdata (`pip install torchdata`) counts the batches that the loop received, not those that
worker processes have read ahead. Run the same command again to resume.
"""

import sys
from pathlib import Path

import torch
from minimal_loop import FRAMES_PER_SECOND, LANGUAGES, collate, make_corpus
from torchdata.stateful_dataloader import StatefulDataLoader

import ctcdro

SAVE_EVERY = 10  # batches


def train(corpus, durations, languages, model, folder: Path, num_epochs: int, num_workers: int) -> ctcdro.CTCDROLoss:
    sampler = ctcdro.LengthMatchedBatchSampler(durations, languages, batch_duration=12.0)
    loader = StatefulDataLoader(
        corpus,
        batch_sampler=sampler,
        collate_fn=collate,
        num_workers=num_workers,
        generator=torch.Generator(),  # otherwise it draws from the generator that dropout uses
    )
    criterion = ctcdro.CTCDROLoss(len(LANGUAGES), 1e-3, 0.5, group_names=LANGUAGES)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    parts = {"model": model, "optimizer": optimizer, "criterion": criterion, "loader": loader}

    path, first_epoch = folder / "state.pt", 0
    if path.exists():
        state = torch.load(path, weights_only=True)
        for name, part in parts.items():
            part.load_state_dict(state[name])
        first_epoch = state["epoch"]
        torch.set_rng_state(state["rng"])
    model.train()
    for epoch in range(first_epoch, num_epochs):
        sampler.set_epoch(epoch)
        for number, (frames, targets, num_frames, num_targets, groups) in enumerate(loader, start=1):
            log_probs = model(frames).log_softmax(dim=-1)
            criterion(log_probs, targets, num_frames, num_targets, groups).backward()
            optimizer.step()
            optimizer.zero_grad()
            if number % SAVE_EVERY == 0:
                state = {name: part.state_dict() for name, part in parts.items()}
                torch.save(state | {"epoch": epoch, "rng": torch.get_rng_state()}, folder / "unfinished.pt")
                (folder / "unfinished.pt").replace(path)  # a process killed while it saves leaves the old state intact
        print(f"epoch {epoch}, weights:", *(f"{n} {w:.3f}" for n, w in zip(LANGUAGES, criterion.weights, strict=True)))
    return criterion


def main(folder: Path, num_epochs: int = 4) -> ctcdro.CTCDROLoss:
    torch.manual_seed(0)
    folder.mkdir(exist_ok=True)
    corpus = make_corpus(300, seed=0)
    durations = [len(frames) / FRAMES_PER_SECOND for frames, _, _ in corpus]
    languages = [group for _, _, group in corpus]
    layers = torch.nn.Linear(25, 64), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(64, 25)
    return train(corpus, durations, languages, torch.nn.Sequential(*layers), folder, num_epochs, num_workers=2)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "resumable-example"))
