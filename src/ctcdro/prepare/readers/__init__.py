"""One reader per corpus layout. Each yields the entries of a corpus, which `prepare` converts to a dataset."""
