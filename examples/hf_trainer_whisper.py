"""Whisper trained with CTC-DRO and the Seq2SeqTrainer: python examples/hf_trainer_whisper.py [folder]

An ordinary script; the lines that CTC-DRO adds are marked. Three synthetic languages of two, four and eight letters,
spoken as tones: the more letters, the harder to guess. The model is small and starts from random parameters, so it
trains in seconds; on a busy machine, set OMP_NUM_THREADS=1. The loss of an utterance is the sum of the cross-entropies
of its tokens. Run it again with the same folder to resume.
"""

import sys
import tempfile

import numpy as np
import torch
import transformers
from datasets import Dataset

import ctcdro  # ctcdro
from ctcdro.integrations.hf_trainer import ErrorRates, RobustSeq2SeqTrainer, last_checkpoint  # ctcdro

LANGUAGES, LETTERS = ["few", "some", "many"], ["ab", "cdef", "ghijklmn"]
SAMPLES_PER_SECOND = 16000
PADDING, START, END, FIRST_LETTER = 0, 1, 2, 3


def make_corpus(num_utterances: int, seed: int) -> Dataset:
    rng = np.random.default_rng(seed)
    extractor = transformers.WhisperFeatureExtractor(
        feature_size=16, sampling_rate=SAMPLES_PER_SECOND, hop_length=400, chunk_length=1, n_fft=400
    )
    rows = []
    for number in range(num_utterances):
        group = number % len(LANGUAGES)
        text = "".join(rng.choice(list(LETTERS[group]), size=rng.integers(2, 9)))
        pitch = np.repeat([200.0 + 400.0 * (ord(letter) - ord("a")) for letter in text], SAMPLES_PER_SECOND // 10)
        audio = np.sin(2 * np.pi * pitch * np.arange(len(pitch)) / SAMPLES_PER_SECOND).astype(np.float32)
        rows.append(
            {
                "input_features": extractor(audio, sampling_rate=SAMPLES_PER_SECOND).input_features[0],
                "labels": [FIRST_LETTER + ord(letter) - ord("a") for letter in text] + [END],
                "duration": len(audio) / SAMPLES_PER_SECOND,
                "language": LANGUAGES[group],
            }
        )
    return Dataset.from_list(rows)


def make_model() -> transformers.WhisperForConditionalGeneration:
    config = transformers.WhisperConfig(
        **{"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64},
        **{"encoder_attention_heads": 2, "decoder_attention_heads": 2, "num_mel_bins": 16, "max_source_positions": 20},
        **{"vocab_size": FIRST_LETTER + 14, "max_target_positions": 12, "dropout": 0.1},
        **{"pad_token_id": PADDING, "bos_token_id": START, "eos_token_id": END, "decoder_start_token_id": START},
    )
    model = transformers.WhisperForConditionalGeneration(config)
    model.generation_config.max_length = 12
    return model


def collate(rows):
    labels = [torch.as_tensor(row["labels"]) for row in rows]
    return {
        "input_features": torch.as_tensor(np.array([row["input_features"] for row in rows], dtype=np.float32)),
        "labels": torch.nn.utils.rnn.pad_sequence(labels, batch_first=True, padding_value=-100),
    }


def decode(tokens: list[int]) -> str:
    return "".join(chr(ord("a") + token - FIRST_LETTER) for token in tokens if token >= FIRST_LETTER)


def main(folder: str, num_train_epochs: float = 6) -> transformers.Seq2SeqTrainer:
    transformers.set_seed(0)
    train, dev = make_corpus(240, seed=0), make_corpus(31, seed=1)
    groups = [LANGUAGES.index(language) for language in train["language"]]  # ctcdro
    trainer = RobustSeq2SeqTrainer(  # ctcdro
        objective=ctcdro.ctc_dro(len(LANGUAGES), step_size=3e-3, smoothing=0.5, group_names=LANGUAGES),  # ctcdro
        batch_sampler=ctcdro.LengthMatchedBatchSampler(train["duration"], groups, batch_duration=6.0),  # ctcdro
        compute_metrics=ErrorRates(decode),  # ctcdro
        model=make_model(),
        args=transformers.Seq2SeqTrainingArguments(
            output_dir=folder,
            num_train_epochs=num_train_epochs,
            learning_rate=3e-3,
            lr_scheduler_type="constant",
            logging_steps=4,
            eval_strategy="epoch",
            save_strategy="epoch",
            save_total_limit=2,
            predict_with_generate=True,
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
