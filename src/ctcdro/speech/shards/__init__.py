"""Training data in shards: lhotse Shar, or tar files in the layout of webdataset.

layout     the shards of a folder
entries    the utterances of a shard, and where their audio is
build      reads all shards once, without decoding audio, and writes an index
index      `ShardIndex`: reads any utterance, in memory that does not grow with their number
dataset    `ShardDataset`: the utterances with their audio
"""
