"""Operations on each element: arithmetic, comparisons, functions of one number, activations, conversions."""
