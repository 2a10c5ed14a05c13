"""Logits in, transcripts out: greedy decoding, beam search, and the evaluation of a run."""
