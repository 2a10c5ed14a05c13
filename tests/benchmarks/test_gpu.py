"""The benchmark for a GPU runs on a CPU at a tiny size, and says that it needs a GPU."""

import json

import gpu
import pytest
import torch

pytestmark = pytest.mark.usefixtures("one_thread")


def in_this_process(config, folder, size, num_processes=1):
    folder.mkdir()
    config.write(folder / "config.yaml")
    gpu.take_steps(folder, size)
    return gpu.Measured(**json.loads((folder / "measured.json").read_text()))


def test_every_table_is_measured_and_written(tmp_path, monkeypatch):
    monkeypatch.setattr(gpu, "measure", in_this_process)
    size = gpu.ON_CPU._replace(num_steps=1, num_rounds=1, max_processes=1, variants={"fp32": {}})
    tables = gpu.main(size, tmp_path / "results.json")
    assert [row[1] for row in tables["gpu-training"].rows] == [method.title for method in gpu.METHODS.values()]
    assert tables["gpu-training"].rows[0][3] == "1.000"
    assert all(float(row[4]) > 0 for row in tables["gpu-training"].rows)
    assert len(tables["gpu-loss-cost"].rows) == 3
    assert tables["gpu-scaling"].rows[0][:3:2] == ("1", "1.00")
    written = json.loads((tmp_path / "results.json").read_text())
    assert written["tables"].keys() == tables.keys()
    assert "GPUs" in written["environment"]


def test_a_run_that_fails_is_a_row_of_the_table(tmp_path, monkeypatch):
    monkeypatch.setattr(gpu, "measure", lambda *arguments: "out of memory")
    plain = gpu.make_config(tmp_path, "an encoder", 2.0)
    tables = gpu.training_tables(plain, tmp_path, gpu.ON_CPU)
    assert {row[2] for row in tables["gpu-training"].rows} == {"out of memory"}


def test_it_says_that_it_needs_a_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit, match="needs a GPU"):
        gpu.main()
