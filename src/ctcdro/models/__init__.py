"""Models from audio to logits: encoders, heads, the recognizer, saving, export, cached features of frozen encoders.

Start with `recognizer`.
"""
