"""A CTC model of transformers trained with CTC-DRO and the Trainer: python examples/hf_trainer_ctc.py [folder]

An ordinary script; the lines that CTC-DRO adds are marked. Three synthetic languages, each with its own letters, spoken
as tones; the third is the noisiest. The model is small and starts from random parameters, so it trains in seconds; on a
busy machine, set OMP_NUM_THREADS=1. On several processes: torchrun --nproc-per-node 2 examples/hf_trainer_ctc.py
[folder]. Run it again with the same folder to resume.
"""

import json
import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import transformers
from datasets import Dataset

import ctcdro  # ctcdro
from ctcdro.integrations.hf_trainer import ErrorRates, RobustTrainer, last_checkpoint  # ctcdro

LANGUAGES, NOISE, LETTERS = ["clear", "plain", "noisy"], [0.1, 0.4, 1.0], ["abcd", "efgh", "ijkl"]
SAMPLES_PER_SECOND = 2000


def make_corpus(num_utterances: int, seed: int) -> Dataset:
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(num_utterances):
        group = number % len(LANGUAGES)
        text = "".join(rng.choice(list(LETTERS[group]), size=rng.integers(3, 12)))
        pitch = np.repeat([100.0 + 70.0 * (ord(letter) - ord("a")) for letter in text], SAMPLES_PER_SECOND // 10)
        audio = np.sin(2 * np.pi * pitch * np.arange(len(pitch)) / SAMPLES_PER_SECOND)
        audio = (audio + NOISE[group] * rng.standard_normal(len(audio))).astype(np.float32)
        rows.append({"audio": audio, "duration": len(audio) / SAMPLES_PER_SECOND, "text": text})
        rows[-1]["language"] = LANGUAGES[group]
    return Dataset.from_list(rows)


def make_processor(folder: Path) -> transformers.Wav2Vec2Processor:
    folder.mkdir(parents=True, exist_ok=True)
    symbols = ["<pad>", "<unk>", "|", *"".join(LETTERS)]
    (folder / "vocab.json").write_text(json.dumps({symbol: number for number, symbol in enumerate(symbols)}))
    return transformers.Wav2Vec2Processor(
        transformers.Wav2Vec2FeatureExtractor(sampling_rate=SAMPLES_PER_SECOND, return_attention_mask=True),
        transformers.Wav2Vec2CTCTokenizer(str(folder / "vocab.json"), bos_token=None, eos_token=None),
    )


def make_model(processor: transformers.Wav2Vec2Processor) -> transformers.Wav2Vec2ForCTC:
    config = transformers.Wav2Vec2Config(
        **{"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64},
        **{"conv_dim": [32, 32], "conv_kernel": [20, 6], "conv_stride": [10, 6], "feat_extract_norm": "layer"},
        **{"num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2, "do_stable_layer_norm": True},
        **{"vocab_size": len(processor.tokenizer), "pad_token_id": processor.tokenizer.pad_token_id},
        **{"hidden_dropout": 0.1, "activation_dropout": 0.0, "attention_dropout": 0.0, "feat_proj_dropout": 0.0},
        **{"final_dropout": 0.0, "layerdrop": 0.0, "apply_spec_augment": False},
    )
    return transformers.Wav2Vec2ForCTC(config)


def main(folder: str, num_train_epochs: float = 8) -> transformers.Trainer:
    transformers.set_seed(0)
    processor = make_processor(Path(folder))

    def prepare(row):
        values = processor(row["audio"], sampling_rate=SAMPLES_PER_SECOND).input_values[0]
        return {"input_values": values, "labels": processor.tokenizer(row["text"]).input_ids}

    def collate(rows):
        batch = processor.feature_extractor.pad([{"input_values": row["input_values"]} for row in rows])
        labels = processor.tokenizer.pad([{"input_ids": row["labels"]} for row in rows], return_tensors="pt")
        batch = batch.convert_to_tensors("pt")
        batch["labels"] = labels.input_ids.masked_fill(labels.attention_mask.ne(1), -100)
        return batch

    train, dev = (make_corpus(num, seed).map(prepare) for num, seed in ((240, 0), (31, 1)))
    groups = [LANGUAGES.index(language) for language in train["language"]]  # ctcdro
    trainer = RobustTrainer(  # ctcdro
        objective=ctcdro.ctc_dro(len(LANGUAGES), step_size=1e-3, smoothing=0.5, group_names=LANGUAGES),  # ctcdro
        batch_sampler=ctcdro.LengthMatchedBatchSampler(train["duration"], groups, batch_duration=6.0),  # ctcdro
        compute_metrics=ErrorRates(partial(processor.tokenizer.decode, group_tokens=False)),  # ctcdro
        model=make_model(processor),
        args=transformers.TrainingArguments(
            output_dir=folder,
            num_train_epochs=num_train_epochs,
            learning_rate=3e-3,
            lr_scheduler_type="constant",
            logging_steps=4,
            eval_strategy="epoch",
            save_strategy="epoch",
            save_total_limit=2,
            load_best_model_at_end=True,
            metric_for_best_model="worst_cer",  # ctcdro
            max_grad_norm=0.0,  # ctcdro (1.0, the default, would undo the weights)
            greater_is_better=False,
            disable_tqdm=True,
            report_to="none",
            use_cpu=True,
        ),
        data_collator=collate,
        train_dataset=train,
        eval_dataset=dev,
    )
    trainer.train(resume_from_checkpoint=last_checkpoint(folder))
    return trainer


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
