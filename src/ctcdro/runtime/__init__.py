"""The process: optional dependencies, number types, ranks, threads, dead workers, progress, bfloat16 support.

Knows nothing about speech. Every other folder may import it.
"""
