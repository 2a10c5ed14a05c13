"""A configuration and a dataset in, a run folder out: the loop, its setup and state, and checkpoints."""
