"""Short programs that once went otherwise than on PyTorch, in found/: both libraries must do the same."""

import pytest
from found_programs import compare, programs

PROGRAMS = programs()


@pytest.mark.parametrize("title", PROGRAMS, ids=lambda title: title[:50])
def test_both_libraries_do_the_same(title):
    assert not compare(PROGRAMS[title])
