"""The feed's HTTP server: what a run shows of itself."""
