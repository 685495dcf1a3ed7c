"""Send requests to other processes or machines, a fleet of workers, to be scored there."""
