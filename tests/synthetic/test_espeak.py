"""eSpeak NG and its worker processes."""

import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import espeakng_loader
import pytest

from ctcdro.synthetic.rendering import Pool, ReadJob, SpeakJob, num_samples
from ctcdro.synthetic.voices import LANGUAGES, VARIANTS
from ctcdro.synthetic.words import frequent_words, is_read_well

GREETING = SpeakJob("cs+f2", "dobrý den", rate=120, pitch=50, snr=20.0, seed=3)


def run(jobs, num_workers=2):
    with Pool(num_workers) as pool:
        return list(pool.run(jobs))


def sha256(path):
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def to(path, job=GREETING):
    return SpeakJob(**{**vars(job), "path": str(path)})


@pytest.mark.slow
def test_voices_read_the_words_of_their_language_as_words():
    words = {code: frequent_words(code)[:200] for code in LANGUAGES}
    answers = run([ReadJob(LANGUAGES[code].voice, words[code]) for code in LANGUAGES])
    for code, readings in zip(LANGUAGES, answers, strict=True):
        well = [reading for reading in readings if is_read_well(reading, LANGUAGES[code])]
        assert len(well) >= 100, code
        assert len(set(well)) >= 0.7 * len(well), code  # homophones, as in Mandarin


def test_different_words_differ_in_sound_and_longer_texts_take_longer(tmp_path):
    codes = list(LANGUAGES)
    words = {code: [word for word in frequent_words(code) if len(word) > 1][20:22] for code in codes}
    jobs = []
    for code in codes:
        voice = LANGUAGES[code].voice
        short, other = words[code]
        for number, text in enumerate((short, other, " ".join([short, other] * 3))):
            jobs.append(SpeakJob(voice, text, 120, 50, path=str(tmp_path / f"{code}{number}.wav")))
    lengths = run(jobs)
    for place, code in enumerate(codes):
        first, second, both = lengths[3 * place : 3 * place + 3]
        assert len({sha256(tmp_path / f"{code}{number}.wav") for number in range(3)}) == 3, code
        assert min(first, second) / 16_000 >= 0.4, code
        assert both > max(first, second), code
        assert 0.03 < both / 16_000 / len("".join(words[code]) * 3) < 0.7, code


def test_variants_exist_and_sound_different(tmp_path):
    there = {file.name for file in Path(espeakng_loader.get_data_path(), "voices", "!v").iterdir()}
    assert set(VARIANTS) <= there
    run([SpeakJob(f"cs+{name}", "dobrý den", 120, 50, path=str(tmp_path / f"{name}.wav")) for name in VARIANTS])
    assert len({sha256(path) for path in tmp_path.iterdir()}) == len(VARIANTS)


def test_the_same_job_gives_the_same_bytes_whatever_was_said_before_and_when(tmp_path):
    # f2 and f5 have breath noise, for which eSpeak NG looks at the clock unless it is given a seed.
    jobs = [SpeakJob(f"cs+{name}", "dobrý den", 120, 50) for name in ("f2", "f5", "klatt4")]
    run([to(tmp_path / f"a{number}.wav", job) for number, job in enumerate(jobs)], num_workers=1)
    time.sleep(1.1)
    others = [SpeakJob("cmn+m1", "你好 世界", 160, 40)] * 5
    run([*others, *(to(tmp_path / f"b{number}.wav", job) for number, job in reversed(list(enumerate(jobs))))])
    for number in range(len(jobs)):
        assert sha256(tmp_path / f"a{number}.wav") == sha256(tmp_path / f"b{number}.wav")


def test_long_kana_is_not_cut_off():
    words = ["これ", "ところ", "できる", "カメラ"]
    short, long = run([SpeakJob("ja", " ".join(words * times), 120, 50) for times in (2, 8)])
    assert long > 3.5 * short


def test_a_long_path_of_the_data_does_no_harm(tmp_path):
    site = tmp_path.joinpath(*["a_folder_with_a_rather_long_name"] * 6)
    site.mkdir(parents=True)
    (site / "espeakng_loader").symlink_to(Path(espeakng_loader.__file__).parent)
    assert len(str(site)) > 200
    run([to(tmp_path / "usual.wav")], num_workers=1)
    program = (
        f"import sys; sys.path.insert(0, {str(site)!r}); import espeakng_loader\n"
        "from ctcdro.synthetic.rendering import Pool, SpeakJob\n"
        "assert len(espeakng_loader.get_data_path()) > 200\n"
        f"with Pool(1) as pool: list(pool.run([{to(tmp_path / 'long.wav')!r}]))"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    assert sha256(tmp_path / "long.wav") == sha256(tmp_path / "usual.wav")


def test_jobs_and_answers_longer_than_a_pipe_pass():
    words = ["slovo"] * 20_000
    answers = run([ReadJob("cs", words)] * 3, num_workers=2)
    assert [len(answer) for answer in answers] == [20_000] * 3


def test_an_unknown_voice_is_named():
    with pytest.raises(
        RuntimeError, match="Cannot render 'a' by voice xx: ValueError: `voice` must be a voice of eSpeak NG"
    ):
        run([SpeakJob("xx", "a", 120, 50)])


def test_a_killed_worker_is_an_error_that_names_the_text():
    with Pool(1) as pool:
        answers = pool.run([GREETING] * 1000)
        next(answers)
        os.kill(pool.pids[0], signal.SIGKILL)
        with pytest.raises(RuntimeError, match=r"'dobrý den' by voice cs\+f2 \(signal SIGKILL.*Run the same command"):
            list(answers)


def test_a_crash_in_the_library_and_a_hang_are_errors_with_the_signal():
    program = (
        "import ctypes, time\nfrom ctcdro.synthetic import rendering\nrendering.TIME_LIMIT = 1\n"
        "for function in (lambda: ctypes.string_at(0), lambda: time.sleep(60), lambda: 1 / 0):\n"
        "    try: rendering.in_fork(function)\n    except RuntimeError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    signals = "eSpeak NG was killed by signal SIGSEGV\neSpeak NG was killed by signal SIGALRM\n"
    assert done.stdout == signals + "ZeroDivisionError: division by zero\n"


def test_workers_end_with_the_process_that_started_them():
    program = (
        "import time\nfrom ctcdro.synthetic.rendering import Pool\n"
        "pool = Pool(2)\nprint(*pool.pids, flush=True)\ntime.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        pids = [int(pid) for pid in process.stdout.readline().split()]
        process.kill()
    for _ in range(100):
        if not any(Path(f"/proc/{pid}/cmdline").exists() for pid in pids):
            break
        time.sleep(0.1)
    else:
        pytest.fail("a worker is still there")


def test_workers_do_without_torch():
    program = "import sys, ctcdro.synthetic.rendering, ctcdro.synthetic.corpus; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_a_file_that_is_no_audio_has_no_samples(tmp_path):
    (tmp_path / "a.wav").write_bytes(b"RIFF")
    assert num_samples(tmp_path / "a.wav") is None
    assert num_samples(tmp_path / "b.wav") is None
