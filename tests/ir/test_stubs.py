"""The builder's type stub is what the declarations say."""

from tools.stubs import STUB, stub


def test_the_stub_is_up_to_date():
    assert STUB.read_text() == stub(), "run python -m tools.stubs"
