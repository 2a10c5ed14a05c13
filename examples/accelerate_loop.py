"""minimal_loop.py with Hugging Face accelerate: python examples/accelerate_loop.py results

or on two processes: torchrun --nproc_per_node 2 examples/accelerate_loop.py results

Stopped, the same command goes on from the latest state, in the middle of an epoch too. TensorBoard shows the weights.
The lines marked "ctcdro" are those that differ from plain CTC.
"""

import sys
from pathlib import Path

import torch
from accelerate import Accelerator
from minimal_loop import FRAMES_A_SECOND, LANGUAGES, collate, make_corpus
from torch.utils.data import DataLoader

import ctcdro  # ctcdro

SAVE_EVERY = 10  # batches


def train(corpus, durations, languages, model, folder: Path, num_epochs: int) -> torch.Tensor:
    accelerator = Accelerator(cpu=True, log_with="tensorboard", project_dir=folder)
    accelerator.init_trackers("log")
    sampler = ctcdro.LengthMatchedBatchSampler(durations, languages, batch_duration=12.0)  # ctcdro
    criterion = ctcdro.CTCDROLoss(len(LANGUAGES), 1e-3, 0.5, group_names=LANGUAGES).to(accelerator.device)  # ctcdro
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    model, optimizer = accelerator.prepare(model, optimizer)
    loader = DataLoader(corpus, batch_sampler=sampler, collate_fn=collate)  # ctcdro (not prepared: it shards itself)
    accelerator.register_for_checkpointing(criterion, sampler)  # ctcdro
    if (folder / "state").exists():
        accelerator.load_state(folder / "state")
    for epoch in range(sampler.epoch, num_epochs):  # ctcdro
        sampler.set_epoch(epoch)  # ctcdro
        for number, (frames, targets, num_frames, num_targets, groups) in enumerate(loader, start=1):
            log_probs = model(frames.to(accelerator.device)).log_softmax(dim=-1)
            loss = criterion(log_probs, targets, num_frames, num_targets, groups)  # ctcdro
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            if number % SAVE_EVERY == 0:
                accelerator.save_state(folder / "state")
        accelerator.log(dict(zip(LANGUAGES, criterion.weights.tolist(), strict=True)), step=epoch)  # ctcdro
    accelerator.end_training()
    return criterion.weights


def main(folder: Path, num_epochs: int = 4) -> torch.Tensor:
    torch.manual_seed(0)
    corpus = make_corpus(300, seed=0)
    durations, languages = [len(frames) / FRAMES_A_SECOND for frames, _, _ in corpus], [group for _, _, group in corpus]
    model = torch.nn.Sequential(torch.nn.Linear(25, 64), torch.nn.ReLU(), torch.nn.Linear(64, 25))
    return train(corpus, durations, languages, model, folder, num_epochs)


if __name__ == "__main__":
    print(main(Path(sys.argv[1])))
