"""The temporary folder of a process goes with it, however it ends."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from migraphx.targets.common.scratch import scratch, temporary_folder
from tests.limits import HANG

SCRIPT = """
import os, sys
from migraphx.targets.common.scratch import scratch
folder = scratch()
assert scratch() == folder and folder.stat().st_mode & 0o777 == 0o700
(folder / "object").write_text("")
print(folder, flush=True)
if "fork" in sys.argv:
    child = os.fork()
    if not child:
        assert scratch() != folder
        sys.exit()
    assert os.waitpid(child, 0)[1] == 0 and folder.is_dir()
sys.stdin.read()
"""


def start(tmp_path: Path, *words: str) -> tuple[subprocess.Popen[str], Path]:
    """A process that has a temporary folder until its input ends; and the folder."""
    env = os.environ | {"TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    pipe = subprocess.PIPE
    process = subprocess.Popen([sys.executable, "-c", SCRIPT, *words], env=env, stdin=pipe, stdout=pipe, text=True)
    assert process.stdout
    return process, Path(process.stdout.readline().strip())


def end(process: subprocess.Popen[str]) -> None:
    process.communicate(timeout=HANG)
    assert not process.returncode


@pytest.mark.parametrize("words", [(), ("fork",)])
def test_it_ends_with_the_process(tmp_path: Path, words: tuple[str, ...]) -> None:
    process, folder = start(tmp_path, *words)
    assert folder.parent == tmp_path and folder.is_dir()
    end(process)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_what_a_killed_process_left_goes_later(tmp_path: Path) -> None:
    living, kept = start(tmp_path)
    killed, left = start(tmp_path)
    killed.send_signal(signal.SIGKILL)
    killed.communicate(timeout=HANG)
    fresh, young = start(tmp_path)
    fresh.send_signal(signal.SIGKILL)
    fresh.communicate(timeout=HANG)
    foreign = tmp_path / "openmgx-mine"
    foreign.mkdir()
    for folder in (kept, left):
        os.utime(folder, (1e9, 1e9))
    assert kept.is_dir() and left.is_dir() and (young / "object").exists()
    end(start(tmp_path)[0])
    assert sorted(tmp_path.iterdir()) == sorted([kept, young, foreign]), "that of a living process stays, and new ones"
    end(living)


def test_a_folder_that_fills_while_it_is_removed_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiler still writes when the process ends that no longer waits for it."""

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOTEMPTY, "Directory not empty")

    with temporary_folder() as folder, monkeypatch.context() as patched:
        patched.setattr(os, "rmdir", full)
        temporary_folder().cleanup()
    assert Path(folder).parent == scratch() and not Path(folder).exists()
