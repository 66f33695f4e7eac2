"""The kinds of files that a dataset can be made of: each writes records, reads them back, and names damage."""
