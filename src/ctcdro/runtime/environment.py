"""The software and hardware of this process, for bug reports and run folders."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, requires, version

from . import bfloat16

PACKAGES = ("torch", "numpy", "transformers", "accelerate", "peft", "datasets", "lhotse", "soundfile", "soxr", "typer")
DEVELOPMENT_EXTRAS = ("dev", "docs")
INSTALLED_SEPARATELY = {"espnet": {"espnet"}}  # packages that an extra needs but does not install


def installed_versions(packages: Iterable[str]) -> dict[str, str]:
    """The versions of those packages that are installed."""
    versions = {}
    for name in packages:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions


def describe_environment() -> dict[str, str]:
    """Facts by title, as `ctcdro env` prints them. Takes seconds: it imports torch, and multiplies in bfloat16."""
    versions = installed_versions(["ctcdro", *PACKAGES])
    missing = {name: sorted(packages - installed_versions(packages).keys()) for name, packages in extras().items()}
    return {
        "ctcdro": versions.pop("ctcdro", "not installed"),
        "Python": platform.python_version(),
        **versions,
        "OS": platform.platform(),
        "CPU": _cpu_name(),
        "CPU cores": str(os.cpu_count()),
        "Memory": _memory(),
        "GPUs": _gpus(),
        "bfloat16 on the CPU": _bfloat16_answer(),
        "Installed extras": ", ".join(name for name in missing if not missing[name]) or "none",
        "Missing extras": "; ".join(f"{name} ({', '.join(lacks)})" for name, lacks in missing.items() if lacks)
        or "none",
    }


def extras() -> dict[str, set[str]]:
    """The packages that each extra of ctcdro needs, including those of the extras in it."""
    direct: dict[str, list[str]] = {}
    with suppress(PackageNotFoundError):
        for requirement in requires("ctcdro") or ():
            if extra := re.search(r"extra == ['\"]([\w-]+)['\"]", requirement):
                direct.setdefault(extra[1], []).append(requirement)

    def packages(extra: str) -> set[str]:
        found = INSTALLED_SEPARATELY.get(extra, set())
        for requirement in direct[extra]:
            name, _, inner = re.split(r"[^\w.,\[-]", requirement, maxsplit=1)[0].partition("[")
            found = found.union(*map(packages, inner.split(","))) if inner else found | {name}
        return found

    return {extra: packages(extra) for extra in sorted(direct) if extra not in DEVELOPMENT_EXTRAS}


def _cpu_name() -> str:
    with suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _memory() -> str:
    try:
        return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.1f} GiB"
    except (OSError, ValueError, AttributeError):
        return "unknown"


def _gpus() -> str:
    import torch

    names = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    build = f"CUDA {torch.version.cuda}" if torch.version.cuda else "CPU only"
    return f"{', '.join(names) or 'none'} (PyTorch build: {build})"


def _bfloat16_answer() -> str:
    answer = "works" if bfloat16.prepare_cpu() else "crashes; use training.precision: fp32"
    limit = os.environ.get(bfloat16.ISA_LIMIT)
    return f"{answer} ({bfloat16.ISA_LIMIT}={limit})" if limit else answer
