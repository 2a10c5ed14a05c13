"""Exports of a trained recognizer, for use without ctcdro.

inference               the recognizer without training: audio -> log probabilities, traceable
weights                 its weights, with LoRA merged
stock_model             a CTC class of Hugging Face `transformers`, where there is one
custom_model            any recognizer for `transformers`, with its own code in the folder
configuration_ctcdro, modeling_ctcdro    that code
bundle                  joins modules of this package to one file
onnx_model              an ONNX graph from audio to log probabilities, optionally with int8 weights
"""
