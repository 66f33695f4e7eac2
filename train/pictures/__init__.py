"""Pictures as vectors, computed once: what a captioner that looks at pictures knows of them."""
