"""The type stubs say what the declarations say."""

from tools.stubs import stubs


def test_stubs_are_what_the_declarations_make():
    for path, text in stubs().items():
        assert path.read_text() == text, f"{path.name}: run python -m tools.stubs"
