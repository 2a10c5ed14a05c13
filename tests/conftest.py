from hypothesis import settings

# The same command gives the same result: examples are drawn from a fixed seed, and no test depends on time.
settings.register_profile("repeatable", derandomize=True, deadline=None, print_blob=False)
settings.load_profile("repeatable")
