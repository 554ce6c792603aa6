"""Processes that stand still while another one is measured."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.gpu.models import started_by, tell

CHILD = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(60)'])"


def state(process: int) -> str:
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_process_stands_still_with_what_it_started() -> None:
    before = started_by(os.getpid())
    child = subprocess.Popen([sys.executable, "-c", CHILD])
    try:
        while len(both := started_by(os.getpid()) - before) < 2:
            assert child.poll() is None
            time.sleep(0.01)
        assert child.pid in both
        for what, standing in ((signal.SIGSTOP, True), (signal.SIGCONT, False)):
            tell(both, what)
            while any((state(p) == "T") != standing for p in both):
                time.sleep(0.01)
    finally:
        tell(both, signal.SIGKILL)
        child.wait()
    tell({child.pid}, signal.SIGCONT)  # of one that is gone, nothing
