"""Many feeds under `tidelock serve` for long, killed and edited at random, while its API is asked anything."""
