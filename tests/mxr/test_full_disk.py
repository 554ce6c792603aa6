"""Every file that a user names is written whole or stays as it was, and an error of writing names it."""

from __future__ import annotations

import os
import resource
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import migraphx
from migraphx.driver.main import main
from migraphx.driver.result import Exit
from migraphx.mxr.container import replace_file
from tests.driver.driving import small

LEAST = 256  # bytes; each file here is larger


@contextmanager
def full_disk() -> Iterator[None]:
    """No file of this process may grow beyond LEAST bytes: writing fails as on a disk without more room."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LEAST, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small(tmp_path_factory.mktemp("model"))


def drive(model: Path, *words: str) -> None:
    code = main([words[0], str(model), *words[1:]])
    if code == Exit.INPUT:
        raise OSError(*words)
    assert not code


FORMATS = ("mxr", "msgpack", "json")
WRITERS: dict[str, Callable[[Path, str], None]] = {
    **{f: lambda m, path, f=f: migraphx.save(migraphx.parse_onnx(m), path, format=f) for f in FORMATS},
    "argument": lambda m, path: migraphx.argument(np.ones(LEAST, np.float32)).save(path),
    "driver": lambda m, path: drive(m, "read", "--text", "--output", path),
    "trace": lambda m, path: drive(m, "perf", "--ref", "--iterations", "1", "--trace", path),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_a_full_disk(writer: str, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file that was there is as it was, nothing else is left, and the error names the file."""
    path = tmp_path / "a"
    path.write_bytes(b"good")
    WRITERS[writer](model, os.devnull)  # perf compiles what it measures the machine with: that is in the cache now
    with full_disk(), pytest.raises(OSError) as found:
        WRITERS[writer](model, str(path))
    assert str(path) in str(found.value) + capsys.readouterr().err
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("a", b"good")]
    WRITERS[writer](model, str(path))
    assert path.stat().st_size > LEAST


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
@pytest.mark.parametrize("writer", WRITERS)
def test_devices_are_written_directly(writer: str, model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(OSError) as found:
        WRITERS[writer](model, "/dev/full")
    assert "/dev/full" in str(found.value) + capsys.readouterr().err
    WRITERS[writer](model, os.devnull)
    assert Path("/dev/full").is_char_device() and Path(os.devnull).is_char_device()


def test_links_and_modes_stay(tmp_path: Path) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_bytes(b"old")
    file.chmod(0o640)
    link.symlink_to("file")
    replace_file(link, [b"new"])
    assert link.is_symlink() and file.read_bytes() == b"new" and stat.S_IMODE(file.stat().st_mode) == 0o640
    before = os.umask(0o027)
    try:
        replace_file(tmp_path / "fresh", [b"new"])
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "fresh").stat().st_mode) == 0o640
    replace_file(tmp_path / ("n" * 255), [b"a name as long as names may be"])


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none/a\.mxr"):
        migraphx.save(migraphx.program(), tmp_path / "none" / "a.mxr")
    with pytest.raises(IsADirectoryError, match=str(tmp_path)):
        migraphx.save(migraphx.program(), tmp_path)
