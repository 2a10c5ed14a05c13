"""Speech data in memory: utterances, manifests, normalized text, vocabulary, audio, batches.

In: a dataset folder. Out: padded batches of audio, labels and group numbers.
"""
