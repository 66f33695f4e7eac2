"""Posting memes of the feed on accounts elsewhere, at most once each, and fetching what people think of them."""
