"""The report of a crawl: a time series on disk while it runs, and a page with plots when it ends."""
