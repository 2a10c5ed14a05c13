"""Tables of cases in one test: a failure names its case."""

from contextlib import contextmanager


@contextmanager
def case(name):
    try:
        yield
    except BaseException as error:
        error.add_note(f"Case: {name}")
        raise
