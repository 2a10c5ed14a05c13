"""`python -m ctcdro` is the command `ctcdro`; `torchrun -m ctcdro train …` runs it in several processes."""

from .cli.main import main

if __name__ == "__main__":
    main()
