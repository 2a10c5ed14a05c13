"""Groups found in the data, where they are not labeled: features of utterances, clusters, and what is in them."""
