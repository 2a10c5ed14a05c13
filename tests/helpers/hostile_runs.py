"""Runs whose languages, ids, texts, names and settings try to be executed by a browser or a template."""

import json

from run_folders import write_evaluation, write_run
from tones import write_dataset

from ctcdro import Manifest
from ctcdro.report.read_runs import read_runs
from ctcdro.scoring.transcripts import Prediction

# If one of them were not plain text, it would set `taken`; {{7*7}} would be 49.
STRINGS = [
    "<script>window.taken=1</script>",
    "</script><script>window.taken=2</script>",
    "<img src=x onerror=window.taken=3>",
    '" onmouseover="window.taken=4" autofocus onfocus="window.taken=5',
    "' onfocus='window.taken=6",
    "<a href='javascript:window.taken=7'>link</a>",
    "<svg onload=window.taken=8>",
    "--><script>window.taken=9</script><!--",
    "</style><script>window.taken=10</script>",
    "</title><script>window.taken=11</script>",
    "{{7*7}}{% for x in y %}{{ self.__init__.__globals__ }}",
    "${window.taken=12}`${window.taken=13}`",
    "%{x}<extra></extra><b>bold</b>",
    "\\u003cscript\\u003ewindow.taken=14\\u003c/script\\u003e",
    "&lt;script&gt;window.taken=15&lt;/script&gt;",
    "$\\href{javascript:window.taken=16}{x}$",
    "\u2028window.taken=17//\u2029\u202e",
    "__proto__",
    "constructor",
]


def write_hostile_runs(folder, strings=STRINGS):
    """Two runs below a folder, with a string for each language, id and text; returns the folder."""
    files = [string.replace("/", "\N{FULLWIDTH SOLIDUS}") for string in strings]  # of which names of files have none
    dataset = write_dataset(folder / f"data {files[0]}", num_train=len(strings), num_dev=len(strings))
    for split in ("train", "test"):
        records = [json.loads(line) for line in (dataset / f"{split}.jsonl").read_text().splitlines()]
        for number, record in enumerate(records):
            string = strings[number % len(strings)]
            record |= {"lang": string, "id": f"{string} {number}", "corpus": string, "speaker": string, string: string}
        (dataset / f"{split}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    (dataset / "dataset.json").write_text(json.dumps({"reader": strings[1]}))
    Manifest.read(dataset / "test.jsonl")
    for place, objective in enumerate(("erm", "ctc-dro")):
        name = f"{objective} {files[place + 2]}"
        overrides = [f"model.encoder={json.dumps(strings[place + 4])}"]
        run = write_run(folder / "runs" / name, dataset, objective, 0, 0.3, overrides=overrides)
        [result] = read_runs([run.path]).runs
        predictions = [
            Prediction(one.id, one.lang, string, string, string[::-1] + string)
            for one, string in zip(result.predictions, strings * len(result.predictions), strict=False)
        ]
        write_evaluation(run, predictions)
        about = json.loads(run.run.read_text())
        about |= {
            "commit": strings[0],
            "started": strings[1],
            "machine": {"processor": strings[2], "cores": strings[3]},
        }
        run.run.write_text(json.dumps(about))
    return folder
