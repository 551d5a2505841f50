"""Shows operators a feed and takes their requests, through the bookkeeping at its target."""
