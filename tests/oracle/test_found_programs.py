"""Short programs that once went otherwise than on PyTorch, in found/: both libraries must do the same."""

import pytest
from found_programs import FOLDER, compare, programs

PROGRAMS = programs()
DIFFERENT = programs(FOLDER / "different")  # on purpose: the first line says why


def short(title: str) -> str:
    return title[:50]


@pytest.mark.parametrize("title", PROGRAMS, ids=short)
def test_both_libraries_do_the_same(title):
    assert not compare(PROGRAMS[title])


@pytest.mark.parametrize("title", DIFFERENT, ids=short)
def test_kept_differences_are_still_there(title):
    assert DIFFERENT[title].startswith("# ")
    assert compare(DIFFERENT[title])
