"""How many cores there are for a process: affinity, control groups, OMP_NUM_THREADS."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from migraphx.runtime import cores
from tests.limits import HANG


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_affinity(monkeypatch: pytest.MonkeyPatch) -> None:
    count = "from migraphx.runtime.cores import available; print(available())"
    command = ["taskset", "-c", str(min(os.sched_getaffinity(0))), sys.executable, "-c", count]
    one = subprocess.check_output(command, text=True, env=os.environ | {"OMP_NUM_THREADS": ""}, timeout=HANG)
    assert int(one) == 1
    monkeypatch.setenv("OMP_NUM_THREADS", "")
    assert cores.available() >= 2
    monkeypatch.setenv("OMP_NUM_THREADS", "3,1")
    assert cores.available() == 3


def test_cgroup_quota(tmp_path: Path) -> None:
    def limit(folder: str, text: str) -> None:
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / "cpu.max").write_text(text)

    assert cores.cgroup_quota(tmp_path, "") is None and cores.cgroup_quota(tmp_path, "0::/a/b\n") is None
    limit("a/b", "max 100000\n")
    assert cores.cgroup_quota(tmp_path, "0::/a/b\n") is None
    limit("a", "150000 100000\n")
    assert cores.cgroup_quota(tmp_path, "0::/a/b\n") == 1.5
    limit("", "50000 100000\n")
    assert cores.cgroup_quota(tmp_path, "0::/a/b\n") == 0.5
    assert cores.cgroup_quota(tmp_path, "0::/not/there\n") == 0.5


def test_cgroup_quota_of_version_one(tmp_path: Path) -> None:
    folder = tmp_path / "cpu,cpuacct" / "docker" / "x"
    folder.mkdir(parents=True)
    (folder / "cpu.cfs_quota_us").write_text("200000\n")
    (folder / "cpu.cfs_period_us").write_text("100000\n")
    groups = "7:memory:/docker/x\n4:cpu,cpuacct:/docker/x\n1:name=systemd:/docker/x\n"
    assert cores.cgroup_quota(tmp_path, groups) == 2
    (folder / "cpu.cfs_quota_us").write_text("-1\n")
    assert cores.cgroup_quota(tmp_path, groups) is None
