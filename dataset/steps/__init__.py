"""The filter steps: small functions, a caption in, a caption or `Drop` with its reason out."""
