"""The tasks of a sweep: the feature cache is filled once, and progress is in words."""

import pytest
import tiny_encoders
from tones import write_dataset

from ctcdro.runs.folder import RunFolder
from ctcdro.storage.json_files import append_line
from ctcdro.sweeps.config import parse_sweep
from ctcdro.sweeps.tasks import TaskStatus, TrainAndScore, caches_to_fill
from ctcdro.training.setup import set_up_run

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def config(tmp_path):
    dataset = write_dataset(tmp_path / "data", num_train=3, num_dev=2)
    model = {
        "encoder": str(tiny_encoders.write("whisper", tmp_path / "encoder")),
        "freeze_encoder": True,
        "head": "linear",
    }
    model["feature_cache_dir"] = str(tmp_path / "features")
    run = {"dataset": str(dataset), "model": model, "data": {"num_workers": 0}, "training": {"trackers": []}}
    return parse_sweep({"run": run, "settings": [{"objective": "erm"}, {"objective": "ctc-dro"}]})


def test_one_task_fills_the_cache_of_all_runs(config, tmp_path, monkeypatch):
    configs = [config.config(setting, seed) for setting in config.grid() for seed in (0, 1)]
    [task] = caches_to_fill(configs, tmp_path / "logs")
    task.folder.mkdir(parents=True)
    assert not task.is_done()
    assert task.progress() == (0.0, "starting")
    task()
    assert task.is_done()
    assert len(list((tmp_path / "features").rglob("*.npy"))) == 2 * (3 + 2 + 2), "train, dev and test"
    monkeypatch.setattr("ctcdro.models.feature_cache.load_batches", None)  # nothing is missing
    set_up_run(configs[-1], RunFolder(tmp_path / "run"))


def test_runs_with_other_features_have_other_caches(config, tmp_path):
    configs = [config.config(setting, 0) for setting in config.grid()]
    other = configs[0].model_copy(update={"model": configs[0].model.model_copy(update={"head": "convolution"})})
    without = configs[0].model_copy(update={"model": configs[0].model.model_copy(update={"feature_cache_dir": None})})
    assert len(caches_to_fill([*configs, other, without], tmp_path)) == 2


def test_the_progress_of_a_run_is_its_step_and_the_time_left(config, tmp_path):
    run = config.config(config.grid()[0], 0)
    task = TrainAndScore(run, tmp_path / "run", ("dev",), "plain", TaskStatus(tmp_path / "status.json"))
    assert task.progress() == (0.0, "starting")
    track = task.status.track(lambda sequence, description, total: sequence)
    for _ in track([1, 2], "computing features", 2):
        assert task.progress() == (0.0, "computing features: 1 of 2")
    (tmp_path / "run").mkdir()
    append_line(RunFolder(task.path).log, {"step": 750, "seconds": 60.0})
    assert task.progress() == (0.25, "step 750 of 3,000, 3 min left")
