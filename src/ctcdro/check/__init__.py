"""Validation of a dataset: unreadable audio, unusable texts, leaks between splits."""
