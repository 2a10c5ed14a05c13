"""The running process: optional dependencies, ranks, threads, dead workers, progress, bfloat16 support."""
