"""Decoding: greedy decoding, beam search, transcription of files, and the evaluation of a run."""
