"""The filter steps: small functions, a caption in, `Keep` of a caption or `Drop` with its reason out."""
