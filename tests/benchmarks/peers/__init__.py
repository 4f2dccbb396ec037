"""Headrace against the engines that a user would pick instead, on the same machine in the same run."""
