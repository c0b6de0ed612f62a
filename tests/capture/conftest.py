"""In all tests of captured steps lines that give other numbers than the step are an error."""

import pytest

from tests.capture.as_steps import strictly


@pytest.fixture(autouse=True)
def strict():
    with strictly():
        yield
