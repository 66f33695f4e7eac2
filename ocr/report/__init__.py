"""What is seen of reading: one picture looked at closely, and the page of a run with its worst readings first."""
