"""What is seen of templates: a page of the clusters that were found, to look at and decide about."""
