"""Converts corpora to datasets: one reader per corpus layout, and manifests with statistics."""
