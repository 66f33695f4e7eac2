"""memegen's API: pictures by address, and the lists behind them."""
