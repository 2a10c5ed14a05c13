"""bfloat16 on CPUs: a trial in a child process shows whether matrix products work.

Some virtual machines advertise Intel AMX but do not allow programs to use it. oneDNN, the matrix library of torch, then
crashes the process with "Illegal instruction", which Python cannot catch. Limiting its instruction set avoids AMX.
oneDNN reads the limit when a process first uses it; importing torch does not count as use.
"""

from __future__ import annotations

import os
import subprocess
import sys

VARIABLE = "CTCDRO_CPU_BFLOAT16"
"""Environment variable with the result of the trial. Child processes inherit it; set it to skip the trial."""

ANSWERS = ("works", "without-amx", "fails")

ISA_LIMIT = "ONEDNN_MAX_CPU_ISA"
WITHOUT_AMX = "AVX512_CORE_BF16"

TRIAL = (sys.executable, "-P", __file__)


def prepare_cpu() -> bool:
    """Enables bfloat16 on this CPU if possible, and returns whether it works.

    The first call runs the trial, which takes as long as importing torch. Call this before the process first uses
    oneDNN: if bfloat16 works only without AMX, it sets `ONEDNN_MAX_CPU_ISA`, unless that is set already.
    """
    answer = os.environ.get(VARIABLE) or _find_answer()
    if answer not in ANSWERS:
        raise ValueError(f"{VARIABLE} must be one of {', '.join(ANSWERS)}; got {answer!r}.")
    os.environ[VARIABLE] = answer
    if answer == "without-amx":
        os.environ.setdefault(ISA_LIMIT, WITHOUT_AMX)
    return answer != "fails"


def require_cpu() -> None:
    """Prepares the CPU for a run with `training.precision: bf16`, or rejects it."""
    if not prepare_cpu():
        limit = os.environ.get(ISA_LIMIT, WITHOUT_AMX)
        raise ValueError(
            "training.precision: bf16 does not work on this CPU: matrix products in bfloat16 crash, even with "
            f"{ISA_LIMIT}={limit} ({VARIABLE}=fails). Set training.precision: fp32."
        )


def _find_answer() -> str:
    if _trial_succeeds():
        return "works"
    if ISA_LIMIT not in os.environ and _trial_succeeds({ISA_LIMIT: WITHOUT_AMX}):
        return "without-amx"
    return "fails"


def _trial_succeeds(extra: dict[str, str] | None = None) -> bool:
    return subprocess.run(TRIAL, env={**os.environ, **(extra or {})}, capture_output=True).returncode == 0


def _multiply() -> None:
    """The trial: products of several sizes, because oneDNN chooses instructions by size."""
    import torch
    from torch.nn import functional as F

    torch.set_num_threads(1)
    for size in (8, 64, 256):
        x = torch.ones(4, size, size, dtype=torch.bfloat16, requires_grad=True)
        heads = x[None]
        attended = F.scaled_dot_product_attention(heads, heads, heads)
        products = (x @ x, F.linear(x, x[0]), F.conv1d(x, x[..., :3]), attended)
        torch.stack([product.float().mean() for product in products]).sum().backward()


if __name__ == "__main__":
    _multiply()
