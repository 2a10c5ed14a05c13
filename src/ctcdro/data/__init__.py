"""Corpora as users have them on disk -> datasets, and datasets -> padded batches. One file a corpus."""
