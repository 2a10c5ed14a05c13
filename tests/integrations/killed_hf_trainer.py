"""RobustTrainer with a tiny wav2vec 2.0, to be killed: python killed_hf_trainer.py folder"""

import sys
from pathlib import Path

import torch
import toy
import transformers
from kills import report_steps, write_result
from tiny_wav2vec2 import Waveforms, make_network
from torch.nn.utils.rnn import pad_sequence

from ctcdro.integrations.hf_trainer import RobustTrainer, last_checkpoint


def collate(items):
    samples = [item["input_values"] for item in items]
    return {
        "input_values": pad_sequence(samples, batch_first=True),
        "attention_mask": pad_sequence([torch.ones(len(one), dtype=torch.int64) for one in samples], batch_first=True),
        "labels": pad_sequence([item["labels"] for item in items], batch_first=True, padding_value=-100),
    }


def make_trainer(folder, **options) -> RobustTrainer:
    corpus = Waveforms()
    defaults = {"num_train_epochs": 7, "save_steps": 2, "save_total_limit": 1, "max_grad_norm": 0.0}
    items = [{"input_values": one.frames, "labels": one.labels, "language": one.group} for one in corpus.utterances]
    return RobustTrainer(
        make_network(),
        transformers.TrainingArguments(
            str(folder), **defaults | options, disable_tqdm=True, report_to="none", use_cpu=True
        ),
        data_collator=collate,
        train_dataset=items,
        objective=toy.make_criterion(),
        batch_sampler=corpus.sampler(),
    )


def main(folder: Path) -> None:
    report_steps()
    trainer = make_trainer(folder)
    trainer.train(resume_from_checkpoint=last_checkpoint(folder))
    write_result(folder, trainer.model, trainer.objective)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
