"""What Dynamo has compiled is forgotten between tests; a file that needs more has a fixture of this name."""

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()
