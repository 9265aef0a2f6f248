"""Parts of a jitted function: its methods that inspect, and what it is as a method of a class."""
