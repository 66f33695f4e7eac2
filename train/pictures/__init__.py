"""Pictures as vectors of a frozen encoder, computed once."""
