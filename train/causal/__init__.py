"""A model that corrects what is counted: a gated linear recurrence over characters, and a product of estimates."""
