"""`python -m ctcdro.integrations.espnet` runs ESPnet's `asr_train` with the loss and the batches of ctcdro."""

from .task import CTCDROTask

if __name__ == "__main__":
    CTCDROTask.main()
