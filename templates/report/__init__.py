"""The page of templates: found ones to decide about, or single ones in detail."""
