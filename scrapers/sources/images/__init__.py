"""Image searches: the pictures that Bing and Google find, through a browser."""
