"""A dataset in, findings out: unreadable audio, texts that cannot be trained on, leaks between splits."""
