"""The miniature internet: small copies of the meme sites on loopback, for tests, benches and the demo."""
