"""Shapes: views of the same elements, and copies of them in other arrangements."""
