"""The cache of objects: damage is seen, and nobody else can put code into it."""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from pathlib import Path
from threading import Thread

import pytest

from migraphx.targets.common.cache import digest, entries, lookup, obtain, remove
from tests.limits import HANG

KEY = digest("an object")
LOCKS = Path("/proc/locks")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OPENMGX_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


class Make:
    """Writes an entry, and counts how often."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self, path: Path) -> None:
        self.times += 1
        path.write_bytes(b"code")


def test_made_once(home: Path) -> None:
    make = Make()
    assert lookup(KEY, ".so") is None
    path = obtain(KEY, ".so", make)
    assert obtain(KEY, ".so", make) == lookup(KEY, ".so") == path == home / f"{KEY}.so"
    assert (make.times, path.read_bytes()) == (1, b"code")
    assert home.stat().st_mode & 0o777 == 0o700
    (entry,) = entries()
    assert (entry.path, entry.bytes, entry.whole) == (path, 4, True)
    remove(entry)
    assert lookup(KEY, ".so") is None and not list(home.iterdir())


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("", b"codf"),  # as long as it was
        ("", b"cod"),
        ("", b""),
        ("", None),
        (".sha256", None),
        (".sha256", b""),
        (".sha256", b"openmgx object 1\n"),
        (".sha256", hashlib.sha256(b"code").hexdigest().encode()),  # right but for the first line
    ],
)
def test_damage_is_seen(home: Path, file: str, content: bytes | None) -> None:
    make = Make()
    path = obtain(KEY, ".so", make)
    damaged = path.with_name(path.name + file)
    damaged.unlink()
    if content is not None:
        damaged.write_bytes(content)
    assert lookup(KEY, ".so") is None and not any(e.whole for e in entries())
    assert obtain(KEY, ".so", make) == path
    assert (make.times, path.read_bytes()) == (2, b"code")
    assert lookup(KEY, ".so") == path


@pytest.mark.parametrize("key", ["../evil", "{folder}/evil", "", KEY[:-1], f"{KEY}\n", None, 5, [KEY]])
def test_what_is_no_key_is_no_path(home: Path, tmp_path: Path, key: object) -> None:
    made = obtain(KEY, ".so", Make())
    for place in (tmp_path / "evil.so", home / ".so"):  # whole, but for where it lies
        place.write_bytes(made.read_bytes())
        place.with_name(place.name + ".sha256").write_bytes(made.with_name(made.name + ".sha256").read_bytes())
    given = key.format(folder=tmp_path) if isinstance(key, str) else key
    assert lookup(given, ".so") is None


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="modes of POSIX")
@pytest.mark.parametrize("whose", ["group", "world", "other user"])
def test_a_folder_that_others_write_to_is_not_used(
    home: Path, whose: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    planted = obtain(KEY, ".so", Make())
    if whose == "other user":
        if os.geteuid() == 0:
            os.chown(home, 12345, -1)
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    else:
        home.chmod({"group": 0o770, "world": 0o1777}[whose])
    assert lookup(KEY, ".so") is None
    make, key = Make(), digest("an object", whose)
    elsewhere = obtain(key, ".so", make)
    assert make.times == 1 and elsewhere.parent not in (home, planted.parent)
    assert elsewhere.parent.stat().st_mode & 0o777 == 0o700
    assert obtain(key, ".so", make) == elsewhere and make.times == 1, "it is there as long as the process is"
    assert len(caplog.records) == 1 and "what it holds is run" in caplog.text, "one warning a process"


@pytest.mark.skipif(not LOCKS.exists(), reason="the system does not say who waits")
def test_a_lock_that_was_removed_holds_nobody(home: Path) -> None:
    """Who waits for it while an entry is removed takes the new one, as everybody after that does."""
    obtain(KEY, ".so", Make())
    (entry,) = entries()
    lock, alone = home / f"{KEY}.lock", []

    def make(path: Path) -> None:
        path.write_bytes(b"code")
        with open(lock, "rb") as handle, pytest.raises(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        alone.append(path)

    with open(lock, "rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        waiting = [Thread(target=obtain, args=(KEY, ".so", make)) for _ in range(2)]
        for thread in waiting:
            thread.start()
        while sum(f":{lock.stat().st_ino} " in line and "->" in line for line in LOCKS.read_text().splitlines()) < 2:
            time.sleep(0.01)
        for path in (entry.path, lock):  # as `remove` does
            path.unlink()
    for thread in waiting:
        thread.join(HANG)
    assert len(alone) == 1


def test_what_was_left_half_written_goes(home: Path) -> None:
    home.mkdir(0o700)
    left, beside = home / f"{KEY}.so.123.new", home / f"{digest('another')}.so.124.new"
    for path, age in ((left, 7200), (beside, 60), (home / "mine.new", 7200)):
        path.write_bytes(b"half")
        os.utime(path, (time.time() - age, time.time() - age))
    obtain(digest("a third"), ".so", Make())
    assert {p.name for p in home.glob("*.new")} == {beside.name, "mine.new"}
