"""Many elements to one: sums, extrema, moments, norms, order statistics; scans and sorting."""
