"""Audio in, logits out: encoders, heads, the recognizer, saving, export, and cached features of frozen encoders.

Start at `recognizer`.
"""
