"""What is still to be fetched, kept where no kill -9 reaches it; `contract.py` says what it promises."""
