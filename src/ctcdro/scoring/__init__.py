"""Transcripts in, error rates out: edit counts, scoring profiles, scores per language, confidence intervals."""
