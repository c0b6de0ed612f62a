"""What layers are made of: convolutions, norms, attention, pooling, losses."""
