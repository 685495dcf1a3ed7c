"""The watch over scores: whether a mean has fallen or the judge has moved, and telling people of it."""
