"""The house rule on imports: downwards only, and nothing heavy at the door."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import ctcdro

PACKAGE = Path(ctcdro.__file__).parent

# Each module and the modules of ours that it may import. Neighbours in a layer do not import each other.
# What every module may import is not repeated.
BELOW_ALL = {"extras"}
MAY_IMPORT = {
    "extras": set(),
    "arguments": set(),
    "weights": {"arguments"},
    "ctc": set(),
    "files": set(),
    "places": {"files"},
    "utterance": {"files", "places"},
    "vocab": {"files"},
    "packing": set(),
    "on_device": {"weights"},
    "on_host": {"weights"},
    "objectives": {"arguments", "ctc", "on_device", "on_host", "weights"},
    "planned": {"arguments", "packing"},
    "sampling": {"arguments", "packing", "planned"},
    "streamed": {"packing"},
    "__init__": {"ctc", "objectives", "sampling", "utterance", "weights"},
    "processes": set(),
    "bfloat16": set(),
    "progress": set(),
    "data/__init__": set(),
    "data/audio": {"files"},
    "data/parallel": set(),
    "data/languages": set(),
    "data/digests": set(),
    "data/statistics": {"utterance"},
    "data/findings": {"data/statistics"},
    "data/tables": {"data/languages", "files", "places"},
    "data/json_records": {"files", "utterance"},
    "data/preparing": {
        *("data/audio", "data/digests", "data/parallel", "data/statistics", "files", "folders", "progress"),
        *("utterance", "vocab"),
    },
    "data/common_voice": {"data/preparing", "data/tables", "files", "places"},
    "data/fleurs": {"data/preparing", "data/tables", "files", "places"},
    "data/kaldi": {"data/preparing", "data/tables", "files"},
    "data/nemo": {"data/json_records", "data/preparing", "data/tables", "files"},
    "data/lhotse": {"data/json_records", "data/preparing", "data/tables", "files", "utterance"},
    "data/huggingface": {"data/preparing", "files", "folders"},
    "data/ml_superb_sets": set(),
    "data/ml_superb": {"data/huggingface", "data/ml_superb_sets", "data/preparing", "files", "places"},
    "data/voices": {"data/languages"},
    "data/recipe": set(),
    "data/acoustics": set(),
    "data/espeak": set(),
    "data/sentences": {"data/voices", "vocab"},
    "data/rendering": {"data/acoustics", "data/espeak", "data/recipe", "files"},
    "data/planning": {"data/recipe", "data/rendering", "data/sentences", "data/voices"},
    "data/synthetic": {
        *("data/planning", "data/preparing", "data/recipe", "data/rendering", "data/voices", "files", "folders"),
        *("progress", "utterance"),
    },
    "data/loading": {"data/audio", "processes", "utterance", "vocab"},
    "data/known": {
        *("data/digests", "data/findings", "data/json_records", "data/preparing", "data/statistics"),
        *("utterance", "vocab"),
    },
    "data/checking": {
        *("data/audio", "data/digests", "data/findings", "data/known", "data/parallel"),
        *("data/preparing", "data/voices", "files", "progress", "utterance", "vocab"),
    },
    "tensors": {"files"},
    "frames": set(),
    "spec_augment": set(),
    "folders": {"files"},
    "features": {"frames"},
    "convolution": {"frames"},
    "mel": {"convolution", "frames"},
    "heads": {"convolution", "frames", "spec_augment"},
    "encoders": {"features", "frames", "tensors"},
    "model": {"ctc", "encoders", "files", "folders", "heads", "mel", "tensors", "vocab"},
    "export": {"encoders", "files", "folders", "heads", "model", "tensors", "vocab"},
    "metrics": {"vocab"},
    "significance": {"metrics"},
    "transcripts": {"files"},
    "config": {"files"},
    "checkpoints": {"files", "folders", "tensors"},
    "runfolder": {"files"},
    "stream": {"data/loading", "planned"},
    "beam_search": {"files", "utterance", "vocab"},
    "decoding": {"beam_search", "data/loading", "model", "progress", "transcripts", "utterance", "vocab"},
    "feature_cache": {
        *("data/audio", "data/loading", "files", "model", "progress", "tensors", "utterance", "vocab"),
    },
    "run": {
        *("checkpoints", "config", "data/loading", "feature_cache", "files", "model", "objectives", "planned"),
        *("progress", "runfolder", "sampling", "stream", "tensors", "utterance", "vocab"),
    },
    "training": {
        *(
            "bfloat16",
            "config",
            "ctc",
            "data/audio",
            "data/loading",
            "decoding",
            "files",
            "folders",
            "metrics",
            "processes",
        ),
        *("progress", "run", "runfolder"),
    },
    "evaluation": {
        *("beam_search", "config", "data/audio", "decoding", "feature_cache", "files", "folders", "metrics"),
        *("model", "progress", "runfolder", "transcripts", "utterance", "vocab"),
    },
    "cli_score": {"cli_shown", "files", "metrics", "significance", "transcripts"},
    "model_card": {"config", "files", "metrics", "runfolder", "vocab"},
    "cli_run": {
        *(
            "beam_search",
            "cli_score",
            "cli_shown",
            "config",
            "evaluation",
            "export",
            "files",
            "model",
            "model_card",
            "run",
            "runfolder",
        ),
        "training",
        "vocab",
    },
    "sweep_config": {"config", "files"},
    "sweep_search": {"sweep_config"},
    "launching": {"files", "folders"},
    "sweep": {
        *("bfloat16", "checkpoints", "config", "evaluation", "files", "folders", "launching", "metrics", "run"),
        *("runfolder", "sweep_config", "sweep_search", "training"),
    },
    "demo": {
        *("data/recipe", "data/synthetic", "files", "launching", "progress", "report/page", "sweep", "sweep_config"),
    },
    "cli_sweep": {
        *("cli_recipes", "cli_shown", "data/recipe", "demo", "launching", "sweep", "sweep_config"),
    },
    "__main__": {"cli"},
    "report/__init__": set(),
    "report/lengths": set(),
    "report/plots": {"files", "report/lengths"},
    "report/paper_results": {"data/ml_superb_sets"},
    "report/reading": {
        *("config", "files", "metrics", "report/paper_results", "runfolder", "transcripts", "utterance"),
    },
    "report/comparing": {"config", "report/reading", "significance"},
    "report/table": {"files"},
    "report/tables": {
        *("metrics", "report/comparing", "report/paper_results", "report/reading", "report/table", "significance"),
    },
    "report/series": {"metrics", "report/comparing", "report/reading", "report/tables"},
    "report/figures": {"report/lengths", "report/reading", "report/series"},
    "report/drawings": {
        *("files", "report/comparing", "report/plots", "report/reading", "report/series", "report/tables"),
    },
    "report/worst": {"data/audio", "metrics", "report/comparing", "report/reading", "utterance"},
    "report/page": {
        *("__version__", "files", "progress", "report/comparing", "report/drawings", "report/figures"),
        *("report/reading", "report/series", "report/table", "report/tables", "report/worst", "significance"),
    },
    "cli_report": {"cli_shown", "report/page"},
    "cli_recipes": {"data/recipe"},
    "cli_shown": {"data/findings", "data/preparing", "data/statistics"},
    "cli_prepare": {
        *("cli_shown", "data/preparing", "data/common_voice", "data/fleurs", "data/huggingface", "data/kaldi"),
        *("data/lhotse", "data/ml_superb", "data/ml_superb_sets", "data/nemo", "data/recipe", "data/statistics"),
        *("data/synthetic", "cli_recipes"),
    },
    "integrations/__init__": set(),
    "integrations/clipping": {"integrations/generators"},
    "integrations/generators": {"planned"},
    **{
        f"integrations/{toolkit}": {
            "ctc",
            "integrations/clipping",
            "integrations/generators",
            "metrics",
            "objectives",
            "packing",
            "planned",
            "sampling",
            "streamed",
            "utterance",
        }
        for toolkit in ("espnet", "hf_trainer", "lhotse", "lightning", "speechbrain")
    },
    "cli": {
        *("__init__", "__version__", "cli_prepare", "cli_report", "cli_run", "cli_score", "cli_shown", "cli_sweep"),
        *("data/checking", "processes", "report/plots"),
    },
}


def own_imports(path):
    """Names of our modules that a file imports, wherever in the file, as `data/audio`."""
    folder = path.relative_to(PACKAGE).parent.parts
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").split(".")[0] == "ctcdro"):
            base = folder[: len(folder) + 1 - node.level] if node.level else ()
            module = [*base, *(node.module or "").removeprefix("ctcdro").strip(".").split(".")]
            module = "/".join(part for part in module if part)
            is_module = (PACKAGE / f"{module}.py").exists()
            yield from [module] if is_module else [f"{module}/{alias.name}".lstrip("/") for alias in node.names]
        elif isinstance(node, ast.Import):
            yield from (alias.name[7:].replace(".", "/") for alias in node.names if alias.name.startswith("ctcdro."))


MODULES = {path.relative_to(PACKAGE).with_suffix("").as_posix(): path for path in sorted(PACKAGE.rglob("*.py"))}


@pytest.mark.parametrize("name", MODULES)
def test_modules_import_only_what_is_below_them(name):
    assert set(own_imports(MODULES[name])) <= MAY_IMPORT[name] | BELOW_ALL


def test_the_package_needs_torch_and_numpy_only():
    program = (
        "import sys, torch, numpy; before = set(sys.modules); from ctcdro import *; "
        "print(*{name.split('.')[0] for name in set(sys.modules) - before} - sys.stdlib_module_names)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) <= {"ctcdro", "torch", "numpy"}


# A package that each integration needs, and the extra that installs it.
EXTRAS = {
    "espnet": ("espnet2", "espnet"),
    "hf_trainer": ("transformers", "hf-trainer"),
    "lhotse": ("lhotse", "lhotse"),
    "lightning": ("lightning", "lightning"),
    "speechbrain": ("speechbrain", "speechbrain"),
}


@pytest.mark.parametrize("toolkit", EXTRAS)
def test_an_integration_without_its_toolkit_names_the_extra(toolkit):
    package, extra = EXTRAS[toolkit]
    program = f"import sys; sys.modules[{package!r}] = None; import ctcdro.integrations.{toolkit}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1
    assert f"pip install 'ctcdro[{extra}]'" in done.stderr.splitlines()[-1]


def test_nothing_heavy_is_imported_before_it_is_used():
    program = "import sys, ctcdro; assert 'torch' not in sys.modules and 'numpy' not in sys.modules; print(dir(ctcdro))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "LengthMatchedBatchSampler" in done.stdout


def test_all_public_names_exist_and_are_explained():
    for name in ctcdro.__all__:
        assert getattr(ctcdro, name).__doc__, name
