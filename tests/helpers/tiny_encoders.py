"""Tiny random checkpoints of every family, and one with adapters like MMS, written by `transformers`."""

import json
from pathlib import Path

import torch
import transformers
from safetensors.torch import save_file
from transformers.audio_utils import mel_filter_bank
from transformers.feature_extraction_sequence_utils import SequenceFeatureExtractor
from transformers.models.parakeet.feature_extraction_parakeet import ParakeetFeatureExtractor
from transformers.models.whisper.modeling_whisper import WhisperEncoder

SIZE = {
    **{"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48},
    **{"hidden_dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0, "feat_proj_dropout": 0.0},
    **{"final_dropout": 0.0, "layerdrop": 0.1, "mask_time_prob": 0.5},  # the last two must be switched off
}
CONVOLUTIONS = {"conv_dim": [12] * 7, "num_conv_pos_embedding_groups": 4}
LARGE = {**SIZE, **CONVOLUTIONS, "num_conv_pos_embeddings": 16, "feat_extract_norm": "layer"}
LARGE |= {"do_stable_layer_norm": True, "conv_bias": True}
BASE = {**LARGE, "feat_extract_norm": "group", "do_stable_layer_norm": False, "conv_bias": False}
WHISPER = {
    **{"d_model": 32, "encoder_layers": 2, "decoder_layers": 1, "encoder_attention_heads": 4, "encoder_ffn_dim": 48},
    **{"decoder_attention_heads": 4, "decoder_ffn_dim": 48, "num_mel_bins": 80, "max_source_positions": 150},
    **{"vocab_size": 20, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1},
    **{"dropout": 0.0, "encoder_layerdrop": 0.1},
}
PARAKEET = {
    **{"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48},
    **{"conv_kernel_size": 5, "subsampling_conv_channels": 8, "initializer_range": 0.2},
    **{"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0, "layerdrop": 0.1},
}

MODELS = {
    "wav2vec2": lambda: transformers.Wav2Vec2ForPreTraining(transformers.Wav2Vec2Config(**LARGE)),
    "wav2vec2, group norm": lambda: transformers.Wav2Vec2Model(transformers.Wav2Vec2Config(**BASE)),
    "wav2vec2, adapters": lambda: transformers.Wav2Vec2Model(transformers.Wav2Vec2Config(**LARGE, adapter_attn_dim=8)),
    "hubert": lambda: transformers.HubertModel(transformers.HubertConfig(**LARGE)),
    "hubert, group norm": lambda: transformers.HubertModel(transformers.HubertConfig(**BASE)),
    "wavlm": lambda: transformers.WavLMModel(transformers.WavLMConfig(**LARGE)),
    "wavlm, group norm": lambda: transformers.WavLMModel(transformers.WavLMConfig(**BASE)),
    "data2vec-audio": lambda: transformers.Data2VecAudioModel(
        transformers.Data2VecAudioConfig(**SIZE, **CONVOLUTIONS, num_conv_pos_embeddings=3, conv_pos_kernel_size=5)
    ),
    "wav2vec2-bert": lambda: transformers.Wav2Vec2BertModel(
        transformers.Wav2Vec2BertConfig(**SIZE, conv_depthwise_kernel_size=5, conformer_conv_dropout=0.0)
    ),
    "whisper": lambda: transformers.WhisperForConditionalGeneration(transformers.WhisperConfig(**WHISPER)),
    "whisper, encoder alone": lambda: WhisperEncoder(transformers.WhisperConfig(**WHISPER)),
    "parakeet": lambda: transformers.ParakeetForCTC(
        transformers.ParakeetCTCConfig(encoder_config=PARAKEET, vocab_size=20, pad_token_id=19)
    ),
    "parakeet, encoder alone": lambda: transformers.ParakeetEncoder(transformers.ParakeetEncoderConfig(**PARAKEET)),
}


def parakeet_features():
    """A `ParakeetFeatureExtractor` with filters of `transformers`, because its constructor needs librosa for them."""
    extractor = ParakeetFeatureExtractor.__new__(ParakeetFeatureExtractor)
    SequenceFeatureExtractor.__init__(extractor, feature_size=80, sampling_rate=16_000, padding_value=0.0)
    extractor.hop_length, extractor.n_fft, extractor.win_length, extractor.preemphasis = 160, 512, 400, 0.97
    filters = mel_filter_bank(257, 80, 0.0, 8_000.0, 16_000, norm="slaney", mel_scale="slaney")
    extractor.mel_filters = torch.from_numpy(filters.T).float()
    return extractor


def write(name, folder):
    """Writes the checkpoint of that name."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = MODELS[name]()
        for parameter_name, parameter in model.named_parameters():
            if parameter_name.endswith(("bias", "norm.weight")):  # random, so that zeros do not hide errors
                torch.nn.init.normal_(parameter, mean=float(parameter_name.endswith("weight")), std=0.3)
        for buffer_name, buffer in model.named_buffers():  # statistics of batch norms
            if buffer_name.endswith(("running_mean", "running_var")):
                buffer.add_(torch.rand(buffer.shape))
    model.save_pretrained(folder)
    return str(folder)


def write_with_adapters(folder, characters):
    """Writes a CTC model with adapters and labels for each language, like `facebook/mms-1b-all`.

    Args:
        characters: those of each language. The adapters of the first language are also in the main weights.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    special = ["<pad>", "<s>", "</s>", "<unk>", "|"]
    labels = {name: {label: row for row, label in enumerate([*special, *some])} for name, some in characters.items()}
    main = next(iter(labels))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = transformers.Wav2Vec2ForCTC(
            transformers.Wav2Vec2Config(**LARGE, adapter_attn_dim=8, vocab_size=len(labels[main]))
        )
        for language in reversed(labels):
            model.lm_head = torch.nn.Linear(LARGE["hidden_size"], len(labels[language]))
            adapters = {name: torch.randn(weight.shape) for name, weight in model._get_adapters().items()}
            save_file(adapters, folder / f"adapter.{language}.safetensors")
    model.load_state_dict(adapters, strict=False)
    model.save_pretrained(folder)
    (folder / "vocab.json").write_text(json.dumps(labels))
    tokenizer = transformers.Wav2Vec2CTCTokenizer(str(folder / "vocab.json"), target_lang=main)
    transformers.Wav2Vec2Processor(transformers.Wav2Vec2FeatureExtractor(), tokenizer).save_pretrained(folder)
    return str(folder)


def write_with_dropout(folder, name="wav2vec2"):
    """Writes the checkpoint of that name with dropout, like pretrained checkpoints."""
    path = Path(write(name, folder)) / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps({key: 0.1 if key.endswith("dropout") else value for key, value in config.items()}))
    return str(folder)
