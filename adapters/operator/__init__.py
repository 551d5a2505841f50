"""What an operator sees of a feed and asks of it, through the bookkeeping at its target."""
