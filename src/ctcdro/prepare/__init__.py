"""Corpora -> datasets: one reader per corpus layout, checks, and manifests with statistics."""
