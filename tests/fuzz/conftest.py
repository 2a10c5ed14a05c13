collect_ignore = ["atheris_parsers.py"]  # a separate program, which needs atheris
