"""Which implementation serves which database: one line each."""
