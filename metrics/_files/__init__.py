"""Files: rows and samples read from them in every format, and lines appended to them."""
