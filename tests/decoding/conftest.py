import pytest


@pytest.fixture(scope="module")
def run(one_thread, tmp_path_factory):
    """Trained until it reads the tones; its configuration names the dataset relative to the file."""
    import yaml
    from tones import write_dataset

    from ctcdro.runs.config import read_config
    from ctcdro.training.loop import train

    folder = tmp_path_factory.mktemp("run")
    write_dataset(folder / "data", num_train=40)
    values = {
        "dataset": "data",
        "model": {"encoder": "mel-small", "head": "linear", "spec_augment": False},
        "objective": {"step_size": 1e-3, "smoothing": 0.5},
        "data": {"num_workers": 0},
        "sampling": {"batch_duration": 6.0},
        "optimizer": {
            "learning_rate": 4e-3,
            "max_grad_norm": None,
            "batches_per_step": 1,
            "lr_schedule": "cosine",
            "warmup_fraction": 0.1,
        },
        "training": {"num_batches": 140, "validate_every_batches": 70, "trackers": [], "best_model_by": "worst-cer"},
    }
    (folder / "run.yaml").write_text(yaml.safe_dump(values))
    return train(read_config(folder / "run.yaml"), folder / "run")
