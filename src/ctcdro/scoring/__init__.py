"""Error rates of transcripts: edit counts, scoring profiles, scores per language, confidence intervals."""
