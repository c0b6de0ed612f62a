"""What the backend makes where CuPy has nothing, and the random generator, on a device."""

from __future__ import annotations

from shared import take_over

from tests.simulated import test_backend, test_random
from tests.simulated.test_backend import xp  # noqa: F401 - the fixture

take_over(
    globals(),
    test_backend,
    but="test_constants_are_copied_once test_the_tests_for_a_gpu_pass_on_the_simulated_device",
    two_devices="test_arrays_move_between_devices",
)
take_over(
    globals(),
    test_random,
    but="test_words_are_those_of_the_published_generator",
    two_devices="test_devices_have_generators_of_their_own",
)
