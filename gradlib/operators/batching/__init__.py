"""Batching rules, by name: what an op on one entry is for a whole batch."""
