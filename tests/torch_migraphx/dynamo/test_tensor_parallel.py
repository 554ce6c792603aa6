"""DTensors: a model whose weights are split between two processes gives eager's numbers."""

import multiprocessing
import os
from pathlib import Path

import pytest
import torch
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.multiprocessing.spawn import start_processes

import torch_migraphx  # noqa: F401  # registers the backends

pytestmark = pytest.mark.skipif(not distributed.is_gloo_available(), reason="needs gloo")


class Split(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))


def process(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    torch.manual_seed(0)
    model, x = Split().eval(), torch.randn(4, 8)
    want = model(x).detach()
    parallelize_module(model, init_device_mesh("cpu", (2,)), {"up": ColwiseParallel(), "down": RowwiseParallel()})
    fast = torch.compile(model, backend="migraphx", options={"target": "ref"})
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(fast(x), want)
    got = fast(x)
    torch.testing.assert_close(got, want)
    got.sum().backward()
    assert model.up.weight.grad is not None
    distributed.destroy_process_group()


def test_two_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(os.environ, "OMP_NUM_THREADS", "1")
    monkeypatch.setitem(os.environ, "GLOO_SOCKET_IFNAME", "lo")
    multiprocessing.set_forkserver_preload(["torch_migraphx", parallelize_module.__module__])  # once for both
    start_processes(process, (str(tmp_path),), nprocs=2, start_method="forkserver")
