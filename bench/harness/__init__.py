"""What tests, the demo and benchmarks share: servers, feeds between them, and load.  Imports no benchmark."""
