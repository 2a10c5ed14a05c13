"""Training: the loop, its setup and state, validation, and checkpoints."""
