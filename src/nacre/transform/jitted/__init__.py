"""Parts of a jitted function: its methods that inspect, and its form as a method of a class."""
