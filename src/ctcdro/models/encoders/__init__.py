"""Encoders: (B, T) audio at 16 kHz and (B,) numbers of samples -> hidden layers, each (B, F, D).

    mel_small     a small encoder to train from scratch
    pretrained    checkpoints of Hugging Face `transformers`, by family
    waveform      encoders on raw audio: wav2vec 2.0, HuBERT, WavLM, data2vec
    spectrogram   encoders on mel features: wav2vec 2.0 BERT, Whisper and Parakeet
    lora          low-rank adapters for pretrained encoders

The output for an utterance does not depend on its padding, even if it does in `transformers`.
"""
