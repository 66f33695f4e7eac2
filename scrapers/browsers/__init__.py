"""Real browsers for pages that need one: started, guarded, used by one page at a time, and never left behind."""
