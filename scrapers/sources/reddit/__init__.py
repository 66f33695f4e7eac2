"""Reddit: the pictures of subreddits, through its OAuth API."""
