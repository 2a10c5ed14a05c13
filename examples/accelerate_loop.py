"""minimal_loop.py with Hugging Face accelerate: OMP_NUM_THREADS=1 python examples/accelerate_loop.py [folder]

On two processes: torchrun --nproc_per_node 2 examples/accelerate_loop.py [folder]. Run the same command again to resume
from the latest state, even in the middle of an epoch. TensorBoard shows the weights. The lines marked "ctcdro" differ
from plain CTC. One thread is fastest for a model this small, especially on a busy machine.
"""

import shutil
import sys
from pathlib import Path

import torch
from accelerate import Accelerator
from minimal_loop import FRAMES_PER_SECOND, LANGUAGES, collate, make_corpus
from torch.utils.data import DataLoader

import ctcdro  # ctcdro

SAVE_EVERY = 10  # batches


def states(folder: Path) -> list[Path]:
    return sorted(folder.glob("state-*"), key=lambda state: int(state.name.removeprefix("state-")))


def save(accelerator: Accelerator, folder: Path, num_done: int) -> None:
    """Writes a state and renames it when it is complete, so a process killed here leaves the previous one intact."""
    accelerator.save_state(folder / "unfinished")
    accelerator.wait_for_everyone()
    if accelerator.is_main_process:
        (folder / "unfinished").rename(folder / f"state-{num_done}")
        for outdated in states(folder)[:-1]:
            shutil.rmtree(outdated)


def train(corpus, durations, languages, model, folder: Path, num_epochs: int, collate=collate) -> ctcdro.CTCDROLoss:
    accelerator = Accelerator(cpu=True, log_with="tensorboard", project_dir=folder)
    accelerator.init_trackers("log")
    sampler = ctcdro.LengthMatchedBatchSampler(durations, languages, batch_duration=12.0)  # ctcdro
    criterion = ctcdro.CTCDROLoss(len(LANGUAGES), 1e-3, 0.5, group_names=LANGUAGES).to(accelerator.device)  # ctcdro
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    model, optimizer = accelerator.prepare(model, optimizer)
    # Not prepared, because the sampler already yields the batches of its rank. The separate generator keeps the loader
    # from changing dropout.
    loader = DataLoader(corpus, batch_sampler=sampler, collate_fn=collate, generator=torch.Generator())  # ctcdro
    accelerator.register_for_checkpointing(criterion, sampler)  # ctcdro
    if states(folder):
        accelerator.load_state(states(folder)[-1])
    model.train()
    for epoch in range(sampler.epoch, num_epochs):  # ctcdro
        sampler.set_epoch(epoch)  # ctcdro
        for number, (frames, targets, num_frames, num_targets, groups) in enumerate(loader, start=1):
            log_probs = model(frames.to(accelerator.device)).log_softmax(dim=-1)
            loss = criterion(log_probs, targets, num_frames, num_targets, groups)  # ctcdro
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            if number % SAVE_EVERY == 0:
                save(accelerator, folder, num_done=epoch * sampler.num_batches + sampler.state_dict()["position"])
        accelerator.log(dict(zip(LANGUAGES, criterion.weights.tolist(), strict=True)), step=epoch)  # ctcdro
    accelerator.end_training()
    return criterion


def main(folder: Path, num_epochs: int = 4) -> ctcdro.CTCDROLoss:
    torch.manual_seed(0)
    corpus = make_corpus(300, seed=0)
    durations = [len(frames) / FRAMES_PER_SECOND for frames, _, _ in corpus]
    languages = [group for _, _, group in corpus]
    layers = torch.nn.Linear(25, 64), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(64, 25)
    model = torch.nn.Sequential(*layers)
    return train(corpus, durations, languages, model, folder, num_epochs)


if __name__ == "__main__":
    print(main(Path(sys.argv[1] if len(sys.argv) > 1 else "accelerate-example")).weights)
