"""float16 and bfloat16: CuPy's dtypes are those that were recorded, and the backend makes NumPy's of them."""

from __future__ import annotations

from shared import take_over

from tests.simulated import test_half_types

take_over(globals(), test_half_types)
