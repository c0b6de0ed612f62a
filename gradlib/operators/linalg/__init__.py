"""Products of matrices, decompositions, linear systems."""
