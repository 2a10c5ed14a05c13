"""How much memory and time does training need, on paper? .venv/bin/python benchmarks/cost_model.py

Pure arithmetic for encoders with the architecture of wav2vec 2.0 and the paper's head, trained with Adam on batches of
50 s. docs/explanation/cost-and-memory.md explains the terms. Bytes are per device; 1 GB is 1e9 bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from measuring import ResultTable

# Of wav2vec 2.0: channels, and kernel and stride of each convolution.
CHANNELS = 512
CONVOLUTIONS = ((10, 5), (3, 2), (3, 2), (3, 2), (3, 2), (2, 2), (2, 2))
SAMPLES_A_SECOND = 16_000
FRAMES_A_SECOND = 50
POSITIONS = (128, 16)  # kernel and groups of the positional convolution

NUM_LABELS = 1_000
BATCH_SECONDS = 50.0
PADDING = 1.09  # padded over real audio, in matched batches
LORA_RANK = 8
CUDA_BYTES = 1.5e9  # assumed for the CUDA context, libraries and the allocator's gaps
DEVICES = (24, 48, 80)  # GB

FLOPS = 100e12  # assumed floating-point operations per second of one device in bfloat16
HOURS = 100.0  # of audio in an epoch


@dataclass(frozen=True)
class Encoder:
    name: str
    width: int
    num_layers: int

    @property
    def inner(self) -> int:
        """Width of the feed-forward layers."""
        return 4 * self.width

    @property
    def layer_parameters(self) -> int:
        """Of one Transformer layer: four projections, two feed-forward layers, two norms."""
        linear = 4 * (self.width + 1) * self.width + 2 * self.width * self.inner + self.inner + self.width
        return linear + 4 * self.width

    @property
    def front_parameters(self) -> int:
        """Of the convolutions on the audio, the projection, the positional convolution and the last norm."""
        inputs = (1, *[CHANNELS] * 6)
        audio = sum(CHANNELS * (size * kernel + 3) for size, (kernel, _) in zip(inputs, CONVOLUTIONS, strict=True))
        kernel, groups = POSITIONS
        positions = self.width * (self.width // groups) * kernel + kernel + self.width
        return audio + 2 * CHANNELS + (CHANNELS + 1) * self.width + positions + 2 * self.width

    @property
    def parameters(self) -> int:
        return self.num_layers * self.layer_parameters + self.front_parameters


XLS_R = Encoder("XLS-R 300M", 1024, 24)
MMS = Encoder("MMS 1B", 1280, 48)
OMNI = Encoder("omniASR 7B", 2048, 128)
ENCODERS = (XLS_R, MMS, OMNI)


@dataclass(frozen=True)
class Training:
    encoder: Encoder
    kind: Literal["full", "LoRA", "frozen"] = "full"
    precision: Literal["fp32", "bf16"] = "bf16"
    checkpointing: bool = False
    num_devices: int = 1
    sharding: bool = False
    on_cpu: bool = False
    num_labels: int = NUM_LABELS
    padded_seconds: float = BATCH_SECONDS * PADDING


class Memory(NamedTuple):
    """Bytes on each device, by what needs them."""

    weights: float
    gradients: float
    optimizer: float
    activations: float
    buffers: float

    @property
    def total(self) -> float:
        return sum(self)


def head_parameters(encoder: Encoder, num_labels: int) -> int:
    """Of the paper's head: 80 features, a strided convolution, two layers of width 256, the labels."""
    block = 4 * 257 * 256 + 2 * 256 * 1024 + 1024 + 256 + 4 * 256
    mix = encoder.num_layers + 1
    return mix + 81 * encoder.width + (3 * 80 + 1) * 256 + 2 * block + 512 + 257 * num_labels - encoder.width + 80


def trained_parameters(training: Training) -> int:
    encoder, head = training.encoder, head_parameters(training.encoder, training.num_labels)
    adapters = 4 * 2 * LORA_RANK * encoder.width * encoder.num_layers
    return head + {"full": encoder.parameters, "LoRA": adapters, "frozen": 0}[training.kind]


def memory(training: Training) -> Memory:
    """The peak, on each device, of a step with one batch."""
    encoder, parts = training.encoder, training.num_devices if training.sharding else 1
    trained = trained_parameters(training)
    adapters = trained - head_parameters(encoder, training.num_labels) if training.kind == "LoRA" else 0
    total = encoder.parameters + head_parameters(encoder, training.num_labels) + adapters
    return Memory(
        weights=4 * total / parts,
        gradients=4 * trained / parts,
        optimizer=8 * trained / parts,
        activations=_activations(training),
        buffers=_buffers(training, total, trained),
    )


def _activations(training: Training) -> float:
    """What the forward pass stores for the backward pass, and the largest gradients of activations."""
    encoder, seconds = training.encoder, training.padded_seconds
    frames = FRAMES_A_SECOND * seconds
    head = frames / 2 * 4 * (2 * 18 * 256 + 3 * training.num_labels) + frames * 4 * 3 * encoder.width
    if training.kind == "frozen":  # all layers are kept for the head
        return head + frames * 4 * encoder.width * (encoder.num_layers + 1)
    layer = frames * _layer_bytes(training)
    if training.checkpointing:
        layers = layer + frames * 4 * encoder.width * encoder.num_layers
    else:
        layers = layer * encoder.num_layers
    front = 0.0 if training.kind == "LoRA" else _front_bytes(training)
    return head + layers + front


def _layer_bytes(training: Training) -> float:
    """Per frame of a Transformer layer. The residual stream stays in 32 bits."""
    encoder, size = training.encoder, 4 if training.precision == "fp32" else 2
    is_full = training.kind == "full"
    # Residuals before both norms; outputs of the norms; queries, keys, values and the attended values.
    values = 4 * 2 * encoder.width + size * encoder.width * ((2 if is_full else 1) + 4)
    values += size * encoder.inner * (2 if is_full else 1)  # before and after the activation function
    masks = 2 * encoder.width * (4 if training.on_cpu else 1)  # of dropout
    return values + masks


def _front_bytes(training: Training) -> float:
    """The convolutions on the audio: their outputs before and after the norm and the activation function."""
    rates, rate = [], float(SAMPLES_A_SECOND)
    for _, stride in CONVOLUTIONS:
        rate /= stride
        rates.append(rate)
    each = 12 if training.precision == "fp32" else 10
    frame = CHANNELS * training.padded_seconds
    gradients = 2 * 4 * frame * rates[0]
    if training.checkpointing:  # the output of each convolution, and the first one recomputed
        return 4 * frame * sum(rates) + each * frame * rates[0] + gradients
    return each * frame * sum(rates) + gradients


def _buffers(training: Training, total: int, trained: int) -> float:
    base = 0.6e9 if training.on_cpu else CUDA_BYTES
    copies = 2 * total if training.precision == "bf16" and not training.sharding else 0  # of autocast
    if training.num_devices == 1:
        return base + copies
    if not training.sharding:
        return base + copies + 4 * trained  # DDP's copies of the gradients
    # FSDP gathers the parts outside of the layers for the whole step, and up to two layers at a time, each with its
    # gradient and, in bf16, its copy.
    encoder = training.encoder
    gathered = total - encoder.num_layers * encoder.layer_parameters + 2 * encoder.layer_parameters
    return base + gathered * (4 + (4 if training.kind == "full" else 0) + (2 if training.precision == "bf16" else 0))


def operations_a_second(training: Training) -> float:
    """Floating-point operations of a training step per second of padded audio."""
    encoder = training.encoder
    layers = 2 * FRAMES_A_SECOND * encoder.num_layers * encoder.layer_parameters
    front, rate = 0.0, float(SAMPLES_A_SECOND)
    for inputs, (kernel, stride) in zip((1, *[CHANNELS] * 6), CONVOLUTIONS, strict=True):
        rate /= stride
        front += 2 * CHANNELS * inputs * kernel * rate
    front += 2 * FRAMES_A_SECOND * encoder.front_parameters
    recomputed = 1 if training.checkpointing and training.kind != "frozen" else 0
    passes = {"full": (3, 3), "LoRA": (2, 1), "frozen": (1, 1)}[training.kind]
    return layers * (passes[0] + recomputed) + front * (passes[1] + (recomputed if training.kind == "full" else 0))


def hours_an_epoch(training: Training, hours: float = HOURS, flops: float = FLOPS) -> float:
    """Hours for one pass over `hours` of audio, on devices with this many operations per second."""
    return hours * PADDING * operations_a_second(training) / (flops * training.num_devices)


def fits(training: Training) -> str:
    found = [f"{size} GB" for size in DEVICES if memory(training).total <= size * 1e9]
    return f"{found[0]}" if found else "none"


# The tables.


def settings(encoder: Encoder) -> list[Training]:
    plain = Training(encoder)
    one = [
        replace(plain, precision="fp32"),
        plain,
        replace(plain, checkpointing=True),
        replace(plain, kind="LoRA"),
        replace(plain, kind="LoRA", checkpointing=True),
        replace(plain, kind="frozen"),
    ]
    several = [
        replace(plain, checkpointing=True, num_devices=number, sharding=is_sharded)
        for number, is_sharded in ((4, False), (4, True), (8, True), (16, True))
    ]
    return one + several


def describe_devices(training: Training) -> str:
    if training.num_devices == 1:
        return "1"
    return f"{training.num_devices}, {'FSDP' if training.sharding else 'DDP'}"


def main() -> dict[str, ResultTable]:
    table = ResultTable(
        *("encoder", "training", "precision", "devices", "weights (GB)", "gradients (GB)", "optimizer (GB)"),
        *("activations (GB)", "buffers (GB)", "total (GB)", "smallest device", "hours per epoch"),
    )
    for encoder in ENCODERS:
        for one in settings(encoder):
            found = memory(one)
            kind = f"{one.kind}{', checkpointing' if one.checkpointing else ''}"
            parts = [f"{value / 1e9:.1f}" for value in (*found, found.total)]
            table.add(
                *(encoder.name, kind, one.precision, describe_devices(one), *parts, fits(one)),
                f"{hours_an_epoch(one):.2f}" if one.precision == "bf16" else "",
            )
    check = ResultTable("gradient checkpointing", *Memory._fields, "total (GB)")
    for is_on in (False, True):
        found = memory(measured_run(is_on))
        check.add("on" if is_on else "off", *(f"{value / 1e9:.1f}" for value in (*found, found.total)))
    return {"cost-model": table, "cost-model-check": check}


def measured_run(checkpointing: bool) -> Training:
    """The run of real_size.py: on a CPU, with 32 labels."""
    return Training(XLS_R, precision="fp32", checkpointing=checkpointing, on_cpu=True, num_labels=32)


if __name__ == "__main__":
    main()
