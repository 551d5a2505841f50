"""The world in a box: virtual clock, network and targets, faults, and the checkers that watch."""
