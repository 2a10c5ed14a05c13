"""Synthetic speech: a reproducible corpus in several languages, spoken by eSpeak NG."""
