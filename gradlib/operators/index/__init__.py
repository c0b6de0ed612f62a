"""Reading and writing at places: indexing, gather and scatter, masks, searching."""
