"""Files: atomic writes, JSON and JSON lines, locks, tensors, and the paths that a manifest may name."""
