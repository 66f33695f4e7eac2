"""A pool of sandboxed browsers for pages that need JavaScript, each showing one page at a time."""
