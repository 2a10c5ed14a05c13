"""One training run on disk: its configuration and the files in its folder."""
