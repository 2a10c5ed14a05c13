"""Speech data: from the manifests of a dataset folder to padded batches of audio, labels and group numbers."""
