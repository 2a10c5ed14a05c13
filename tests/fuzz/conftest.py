collect_ignore = ["atheris_parsers.py"]  # a program of its own, which needs atheris
