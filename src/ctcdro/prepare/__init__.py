"""Corpora in, datasets out: a reader per corpus layout, checks, and manifests with statistics."""
