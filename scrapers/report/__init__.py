"""What is seen of a crawl: vital signs while it runs, a series of them on disk, and a page with plots afterwards."""
