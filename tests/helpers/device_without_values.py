"""A stand-in for a GPU that shows for what the host would wait.

Tensors on it are those of torch's meta device, which have shapes but no values. (Fake CUDA tensors have no gradients in
CPU builds of torch.) While this mode is active, it counts every operation that needs a value on the host, which returns
ones, and every copy to the device that the host would wait for.
"""

import linecache
import sys

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

aten = torch.ops.aten
COPIES = {aten._to_copy.default, aten.copy_.default}
# The sizes of their results depend on values, as does that of an index with a mask.
SIZED_BY_VALUES = {aten.nonzero.default, aten.masked_select.default, aten._unique2.default, aten.unique_dim.default}
# A CUDA kernel copies these, and waits for it.
INDEXING = {aten.index.Tensor, aten.index_put.default, aten.index_put_.default, aten._unsafe_index.Tensor}
# Memory that is not pinned is copied in parts, which wait for earlier work of the device, unless it fits one part (64
# kB). The tiny batches of tests have a smaller limit.
LARGEST_UNPINNED_COPY = 4096


class DeviceWithoutValues(TorchDispatchMode):
    """Counts what the host waits for, by the line of the package that asked for it."""

    name = "meta"

    def __init__(self):
        super().__init__()
        self.waits = []
        """The operation and the line of each."""
        self.large_copies = []
        """Asynchronous copies of so many bytes that they need pinned memory."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        if function in COPIES and self._copies_between_devices(function, args, kwargs):
            return self._copy(function, args, kwargs)
        if any(tensor.is_meta for tensor in tensors):
            if function == aten._local_scalar_dense.default:
                self._record(self.waits, function)
                return 1.0 if tensors[0].is_floating_point() else 1
            if function in SIZED_BY_VALUES or (function == aten.index.Tensor and tensors[1].dtype == torch.bool):
                self._record(self.waits, function)
                return _on_ones(function, args, kwargs)
            if function in INDEXING and not all(tensor.is_meta for tensor in tensors):
                self._record(self.waits, function)
            if function.overloadpacket == aten._ctc_loss:
                return _shapes_of_ctc_loss(*args)
            if function.overloadpacket == aten._ctc_loss_backward:
                return torch.empty_like(args[1])
        return function(*args, **kwargs)

    def _copies_between_devices(self, function, args, kwargs):
        target, source = self._target_and_source(function, args, kwargs)
        return target.type != source.device.type

    def _target_and_source(self, function, args, kwargs):
        if function == aten.copy_.default:
            return args[0].device, args[1]
        return torch.device(kwargs.get("device") or args[0].device), args[0]

    def _copy(self, function, args, kwargs):
        target, source = self._target_and_source(function, args, kwargs)
        is_async = kwargs.get("non_blocking", False) or (function == aten.copy_.default and args[2:] == (True,))
        if target.type == "cpu" or not is_async:
            self._record(self.waits, function)
        elif source.numel() * source.element_size() > LARGEST_UNPINNED_COPY:
            self._record(self.large_copies, function)
        if target.type != "cpu":
            return function(*args, **kwargs)
        ones = torch.ones_like(source, device="cpu", dtype=kwargs.get("dtype"))
        return ones if function == aten._to_copy.default else args[0].copy_(ones)

    def _record(self, found, function):
        frame = sys._getframe()
        while frame is not None and "/ctcdro/" not in frame.f_code.co_filename:
            frame = frame.f_back
        where = "outside of ctcdro"
        if frame is not None:
            path = frame.f_code.co_filename
            where = f"{path.rpartition('/ctcdro/')[2]}: {linecache.getline(path, frame.f_lineno).strip()}"
        found.append(f"{function} in {where}")


def _on_ones(function, args, kwargs):
    args, kwargs = tree_map_only(torch.Tensor, lambda tensor: torch.ones_like(tensor, device="cpu"), (args, kwargs))
    return tree_map_only(torch.Tensor, lambda tensor: tensor.to("meta"), function(*args, **kwargs))


def _shapes_of_ctc_loss(log_probs, targets, input_lengths, target_lengths, *options):
    """The CUDA kernel takes lengths from the host."""
    assert all(type(length) is int or length.is_cpu for length in (*input_lengths, *target_lengths))
    num_frames, num_utterances, _ = log_probs.shape
    alphas = log_probs.new_empty(num_utterances, num_frames, 2 * targets.shape[1] + 1)
    return log_probs.new_empty(num_utterances), alphas
