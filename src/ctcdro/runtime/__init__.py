"""The process: optional dependencies, number types, ranks, threads, dead workers, progress, bfloat16 support."""
