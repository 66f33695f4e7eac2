"""Picture vectors of a frozen encoder, computed once and cached."""
