"""What the path of a program that is run unchanged begins with."""
