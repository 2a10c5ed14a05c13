"""Run folders in, a page out: comparisons, tables, figures, the worst utterances, and the model card."""
