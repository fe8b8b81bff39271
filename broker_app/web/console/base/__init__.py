"""Parts that all pages use: the frame, lists, forms, labels."""
