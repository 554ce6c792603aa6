"""docs/driver.md says what the parser says."""

from __future__ import annotations

from tools.driver import PAGE, document


def test_the_page_of_the_driver_is_up_to_date() -> None:
    assert PAGE.read_text() == document(), "run `python -m tools.driver`"
