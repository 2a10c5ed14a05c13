"""Reports about runs: comparisons, tables, figures, worst utterances, the HTML page, and the model card."""
